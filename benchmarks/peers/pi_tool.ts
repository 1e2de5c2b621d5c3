// The tool of the loop benchmark, as an extension of Pi.
const row = (key: string) => {
  const text = `row ${key}: alpha beta gamma delta epsilon zeta eta theta; `;
  return text.repeat(Math.floor(1024 / text.length) + 1).slice(0, 1024);
};

export default function (pi: any) {
  pi.registerTool({
    name: "lookup",
    label: "Lookup",
    description: "Look up one row of the table by its key.",
    parameters: {
      type: "object",
      properties: { key: { type: "string", description: "The key of the row to look up." } },
      required: ["key"],
      additionalProperties: false,
    },
    async execute(_id: string, given: any) {
      return { content: [{ type: "text", text: row(given.key) }], details: {} };
    },
  });
}
