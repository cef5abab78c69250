//! The tools: what they are called, what they take, and the command line that each call is.

use ramson_source::{Base, Failure, Selector};
use serde_json::{Map, Value, json};

/// As JSON, an answer has so many bytes unless the client asks for more.
const USUAL_BYTES: usize = 8_000;
const LEAST_BYTES: usize = 1_000;
const MOST_BYTES: usize = 1_000_000;
/// Parameter that every tool takes: the largest answer, in bytes.
const MAX_BYTES: &str = "max_bytes";

const SOURCE: &str = "A process ID; name:NAME, all processes of that name; tree:PID; unit:redis.service; cgroup:PATH; or a file (ramson's, pprof, jemalloc, gperftools, heaptrack, collapsed). With a history: SRC@-1h, SRC@peak, SRC@mark:NAME, SRC@-2h..-1h";
const FOCUS: &str = "Keep only stacks with a frame that matches this regular expression";
const IGNORE: &str = "Drop stacks with a frame that matches this regular expression";
const SAMPLE: &str = "What to count: live (bytes, the default), live-objects, allocated (bytes since the start) or allocations";

/// Form of a parameter on the command line.
#[derive(Clone, Copy)]
pub enum Form {
    /// One SRC or file, before the flags' end.
    Operand,
    /// Several words there.
    Operands,
    /// The value of a flag.
    Text,
    /// The value of a flag that is one of these.
    OneOf(&'static [&'static str]),
    /// A number of rows.
    Number,
    /// A flag without a value.
    Flag,
    /// The value of a flag that names a profile.
    Profile,
}

/// A parameter: its name is the flag's.
pub struct Parameter {
    pub name: &'static str,
    pub form: Form,
    pub is_required: bool,
    pub help: &'static str,
}

/// A tool: its name is the command's, except `source`, which has none.
pub struct Tool {
    pub name: &'static str,
    pub help: &'static str,
    pub parameters: &'static [Parameter],
}

const fn required(name: &'static str, help: &'static str) -> Parameter {
    Parameter { name, form: Form::Operand, is_required: true, help }
}

const fn optional(name: &'static str, form: Form, help: &'static str) -> Parameter {
    Parameter { name, form, is_required: false, help }
}

const ROWS: Parameter = optional("rows", Form::Number, "Rows; 0 for all that fit");
const VIEWS: [&str; 7] = ["stacks", "top", "lines", "tree", "callers", "sizes", "threads"];

/// All of them, in the order in which they are used.
pub const ALL: [Tool; 7] = [
    Tool {
        name: "list",
        help: "List the profiles of running and dead processes, the largest RSS first. Start here.",
        parameters: &[
            optional(
                "words",
                Form::Operands,
                "Each must occur in the name, command line or path, or be the process ID",
            ),
            optional("running", Form::Flag, "Only running processes"),
            optional("user", Form::Text, "Only this user's processes"),
        ],
    },
    Tool {
        name: "report",
        help: "Show what is using the memory of a process: RSS as a sum of terms, and the stacks that hold the most live bytes, each with its 95 % interval and age.",
        parameters: &[
            required("source", SOURCE),
            optional(
                "view",
                Form::OneOf(&VIEWS),
                "stacks (the default); top: by function; lines: by line; tree: callers to callees; callers: callees to callers; sizes: live blocks by size; threads: live blocks by thread",
            ),
            optional("count", Form::Text, SAMPLE),
            optional("focus", Form::Text, FOCUS),
            optional("ignore", Form::Text, IGNORE),
            ROWS,
        ],
    },
    Tool {
        name: "leaks",
        help: "Judge whether a process leaks: a verdict on each function that holds live memory, from the ages of its blocks, with evidence.",
        parameters: &[
            required("source", SOURCE),
            optional(
                "min_age",
                Form::Text,
                "Younger memory is not judged: 1m (the default), 5s, 2h",
            ),
            optional("since", Form::Profile, "Measure growth since this mark or file"),
            optional(
                "baseline",
                Form::Profile,
                "Hide what was already growing in this mark or file",
            ),
            optional("focus", Form::Text, FOCUS),
            optional("ignore", Form::Text, IGNORE),
            ROWS,
        ],
    },
    Tool {
        name: "diff",
        help: "Show what changed between two profiles, and which changes are significant.",
        parameters: &[
            required("old", SOURCE),
            required("new", SOURCE),
            optional("count", Form::Text, SAMPLE),
            optional("focus", Form::Text, FOCUS),
            optional("ignore", Form::Text, IGNORE),
            ROWS,
        ],
    },
    Tool {
        name: "explain",
        help: "Explain the RSS of a running process and why freed memory is not returned to the kernel, and advise what to do, with the bytes that each step saves. Needs no profile.",
        parameters: &[
            required("source", "A process ID, name:NAME, tree:PID, unit:NAME or cgroup:PATH"),
            ROWS,
        ],
    },
    Tool {
        name: "timeline",
        help: "Show RSS and live bytes of a process over time, if \"ramson history\" keeps its history.",
        parameters: &[
            required(
                "source",
                "A process ID, name:NAME, or a history's file; with a range, as in SRC@-2h..-1h",
            ),
            ROWS,
        ],
    },
    Tool {
        name: "source",
        help: "Show lines of a source file with the bytes allocated at each. Only files that the profile's debug information names, beneath --source-root.",
        parameters: &[
            required("source", SOURCE),
            Parameter {
                name: "file",
                form: Form::Text,
                is_required: true,
                help: "Its path as the frames of report show it",
            },
        ],
    },
];

/// A tool as the user of the protocol called it.
pub struct Call {
    pub tool: &'static Tool,
    values: Map<String, Value>,
    /// Largest size of the answer, in bytes.
    pub most_bytes: usize,
}

impl Tool {
    /// The tool of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|tool| tool.name == name)
    }

    /// Returns the parameters of the tool as a JSON Schema.
    pub fn schema(&self) -> Map<String, Value> {
        let mut properties = Map::new();
        for parameter in self.parameters {
            let mut schema = match parameter.form {
                Form::Operands => json!({ "type": "array", "items": { "type": "string" } }),
                Form::OneOf(values) => json!({ "type": "string", "enum": values }),
                Form::Number => json!({ "type": "integer", "minimum": 0 }),
                Form::Flag => json!({ "type": "boolean" }),
                Form::Operand | Form::Text | Form::Profile => json!({ "type": "string" }),
            };
            schema["description"] = parameter.help.into();
            properties.insert(parameter.name.into(), schema);
        }
        let bytes = json!({ "type": "integer", "minimum": LEAST_BYTES, "maximum": MOST_BYTES, "default": USUAL_BYTES,
                            "description": "Size limit of the answer, in bytes of JSON; the answer says what it left out" });
        properties.insert(MAX_BYTES.into(), bytes);
        let required: Vec<&str> =
            self.parameters.iter().filter(|it| it.is_required).map(|it| it.name).collect();
        let schema = json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        let Value::Object(schema) = schema else { unreachable!("it is written as an object") };
        schema
    }

    /// Checks the values that a client sent.
    pub fn call(&'static self, values: Option<Map<String, Value>>) -> Result<Call, Failure> {
        let mut values = values.unwrap_or_default();
        let most_bytes = match values.remove(MAX_BYTES) {
            None | Some(Value::Null) => USUAL_BYTES,
            Some(value) => {
                let bytes = value.as_u64().and_then(|bytes| usize::try_from(bytes).ok());
                let is_good = |bytes: &usize| (LEAST_BYTES..=MOST_BYTES).contains(bytes);
                bytes.filter(is_good).ok_or_else(|| {
                    Failure::usage(format!(
                        "{MAX_BYTES}: not a number from {LEAST_BYTES} to {MOST_BYTES}"
                    ))
                })?
            }
        };
        values.retain(|_, value| !value.is_null());
        if let Some(unknown) = values.keys().find(|name| self.parameter(name).is_none()) {
            let known: Vec<&str> = self.parameters.iter().map(|it| it.name).collect();
            return Err(Failure::usage(format!(
                "{}: not a parameter of {}. There are {}, {MAX_BYTES}",
                unknown.escape_debug(),
                self.name,
                known.join(", ")
            )));
        }
        let is_missing = |it: &&Parameter| it.is_required && !values.contains_key(it.name);
        if let Some(missing) = self.parameters.iter().find(is_missing) {
            return Err(Failure::usage(format!("{}: {} needs it", missing.name, self.name)));
        }
        Ok(Call { tool: self, values, most_bytes })
    }

    fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }
}

impl Call {
    /// A value that is a text; empty where it was not sent.
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The command line that prints the document.
    pub fn command_line(&self) -> Result<Vec<String>, Failure> {
        let mut words = vec!["ramson".to_owned(), self.tool.name.to_owned(), "--json".into()];
        let mut operands = Vec::new();
        for parameter in self.tool.parameters {
            let Some(value) = self.values.get(parameter.name) else { continue };
            let flag = format!("--{}", parameter.name.replace('_', "-"));
            let wrong = |kind: &str| Failure::usage(format!("{}: not {kind}", parameter.name));
            let text = || value.as_str().ok_or_else(|| wrong("a string"));
            match parameter.form {
                Form::Operand => operands.push(checked(text()?)?),
                Form::Profile => words.push(format!("{flag}={}", checked(text()?)?)),
                Form::Text | Form::OneOf(_) => words.push(format!("{flag}={}", text()?)),
                Form::Number => {
                    let number = value.as_u64().ok_or_else(|| wrong("a whole number"))?;
                    words.push(format!("{flag}={number}"));
                }
                Form::Flag => match value.as_bool() {
                    Some(true) => words.push(flag),
                    Some(false) => {}
                    None => return Err(wrong("true or false")),
                },
                Form::Operands => {
                    let all = value.as_array().ok_or_else(|| wrong("a list of strings"))?;
                    for word in all {
                        let word = word.as_str().ok_or_else(|| wrong("a list of strings"))?;
                        operands.push(word.to_owned());
                    }
                }
            }
        }
        words.push("--".into());
        words.extend(operands);
        Ok(words)
    }
}

/// Refuses what a model must not be talked into: reading the protocol's own input, waiting for what a pipe or a device may send, and going
/// out to the network.
pub fn checked(source: &str) -> Result<String, Failure> {
    match Selector::parse(source)?.base {
        Base::Input => {
            Err(Failure::usage("-: standard input is the protocol's. Pass a process or a file"))
        }
        Base::Address(_) => Err(Failure::usage(format!(
            "{source}: addresses are not fetched here. Save the profile to a file, and pass that"
        ))),
        Base::File(path) if path.metadata().is_ok_and(|it| !it.is_file() && !it.is_dir()) => {
            Err(Failure::usage(format!(
                "{source}: a pipe, socket or device. Save the profile to a file, and pass that"
            )))
        }
        _ => Ok(source.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::command;

    fn line(tool: &str, values: Value) -> Result<Vec<String>, String> {
        let Value::Object(values) = values else { panic!("no object") };
        let call = Tool::named(tool).unwrap().call(Some(values));
        call.and_then(|call| call.command_line()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn every_parameter_is_a_flag_or_an_operand_of_its_command() {
        for tool in ALL.iter().filter(|tool| tool.name != "source") {
            let command = command();
            let command = command.find_subcommand(tool.name).expect(tool.name);
            for parameter in tool.parameters {
                let flag = parameter.name.replace('_', "-");
                let is_flag = command.get_arguments().any(|arg| arg.get_long() == Some(&flag));
                let is_operand = matches!(parameter.form, Form::Operand | Form::Operands);
                assert!(is_flag != is_operand, "{} {flag}", tool.name);
            }
        }
    }

    #[test]
    fn a_call_is_a_command_line() {
        let made =
            line("report", json!({ "source": "-x", "view": "top", "rows": 3, "max_bytes": 9000 }));
        assert_eq!(
            made.unwrap(),
            ["ramson", "report", "--json", "--view=top", "--rows=3", "--", "-x"]
        );
        let made =
            line("list", json!({ "words": ["redis", "--prune"], "running": true, "user": null }));
        assert_eq!(
            made.unwrap(),
            ["ramson", "list", "--json", "--running", "--", "redis", "--prune"]
        );
    }

    #[test]
    fn what_is_unknown_missing_or_of_another_kind_is_named() {
        for (tool, values, finding) in [
            ("report", json!({ "source": "1", "window": "1h" }), "window: not a parameter"),
            ("report", json!({}), "source: report needs it"),
            ("report", json!({ "source": 1 }), "source: not a string"),
            ("report", json!({ "source": "1", "rows": "all" }), "rows: not a whole number"),
            ("report", json!({ "source": "1", "max_bytes": 1 }), "max_bytes: not a number from"),
            ("report", json!({ "source": "-" }), "standard input is the protocol's"),
            ("diff", json!({ "old": "http://x/", "new": "1" }), "addresses are not fetched"),
            ("leaks", json!({ "source": "1", "since": "https://x/" }), "addresses are not fetched"),
            ("report", json!({ "source": "/dev/null" }), "a pipe, socket or device"),
            ("list", json!({ "words": "x" }), "words: not a list"),
        ] {
            let refused = line(tool, values.clone()).unwrap_err();
            assert!(refused.contains(finding), "{tool} {values}: {refused}");
        }
    }
}
