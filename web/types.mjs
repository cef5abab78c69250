// Writes src/documents.ts: the types of the server's documents, a namespace for each schema of docs/schemas, made from what it says.
import { readdir, readFile, writeFile } from "node:fs/promises";

const schemas = "../docs/schemas";
const SIMPLE = { integer: "number", number: "number", string: "string", boolean: "boolean", null: "null" };

function object(schema) {
  const required = new Set(schema.required);
  const fields = Object.entries(schema.properties).map(([name, of]) => `${note(of)}${JSON.stringify(name)}${required.has(name) ? "" : "?"}: ${type(of)};\n`);
  return `{\n${fields.join("")}}`;
}

function ofType(name, schema) {
  if (name === "array") return schema.prefixItems ? `[${schema.prefixItems.map(type).join(", ")}]` : `(${schema.items ? type(schema.items) : "unknown"})[]`;
  if (name !== "object") return SIMPLE[name];
  if (schema.properties) return object(schema);
  return schema.additionalProperties ? `Record<string, ${type(schema.additionalProperties)}>` : "object";
}

/** Type that combines all parts of a schema. */
function type(schema) {
  const all = [];
  if (schema.$ref) all.push(schema.$ref.split("/").at(-1));
  for (const either of [schema.anyOf, schema.oneOf].filter(Boolean)) all.push(`(${either.map(type).join(" | ")})`);
  if (schema.const !== undefined) all.push(JSON.stringify(schema.const));
  else if (schema.enum) all.push(schema.enum.map((value) => JSON.stringify(value)).join(" | "));
  else if (schema.properties) all.push(object(schema));
  else if (schema.type && !all.length) all.push([schema.type].flat().map((name) => ofType(name, schema)).join(" | "));
  return all.length ? all.join(" & ") : "unknown";
}

const note = ({ description }) => (description ? `/** ${description.replaceAll("*/", "* /")} */\n` : "");

const out = ["// Made by types.mjs from docs/schemas.\n"];
for (const file of (await readdir(schemas)).sort()) {
  const { $defs = {}, properties, required, ...rest } = JSON.parse(await readFile(`${schemas}/${file}`, "utf8"));
  // Fields that a document has in every case.
  const Fields = { type: "object", properties, required };
  const Document = rest.anyOf || rest.oneOf ? { ...rest, $ref: "Fields" } : Fields;
  const types = Object.entries({ ...$defs, Fields, Document }).map(([name, schema]) => `${note(schema)}export type ${name} = ${type(schema)};\n`);
  out.push(`export namespace ${file.replace(".json", "")} {\n${types.join("")}}\n`);
}
await writeFile("src/documents.ts", out.join("\n"));
