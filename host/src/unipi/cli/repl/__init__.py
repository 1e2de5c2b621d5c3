"""The interactive prompt: `unipi` without a command.

`start` puts it together, `shell` takes lines and hands them on, `commands` and `moves` are what a
line with a slash does, `transcript` says what is shown, and a console shows it: `terminal` on a real
one, `plain` everywhere else.
"""
