"""What a project and its user tell the model: instruction files, skills, prompt templates."""
