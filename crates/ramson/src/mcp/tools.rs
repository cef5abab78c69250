//! The tools: their names, their parameters, and the question that each call asks.

use ramson_analysis::naming::Names;
use ramson_analysis::question::{Document, Question};
use ramson_source::{Base, Failure, Selector, check_stored};
use serde_json::{Map, Value, json};

/// As JSON, an answer has so many bytes unless the client asks for more.
const USUAL_BYTES: usize = 8_000;
const LEAST_BYTES: usize = 1_000;
const MOST_BYTES: usize = 1_000_000;
/// Parameter that every tool takes: the largest answer, in bytes.
const MAX_BYTES: &str = "max_bytes";

const SOURCE: &str = "A process ID; name:NAME, all processes of that name; tree:PID; unit:redis.service; cgroup:PATH; or a file (ramson's, pprof, jemalloc, gperftools, heaptrack, memleak, Seastar, collapsed). With a history: SRC@-1h, SRC@peak, SRC@mark:NAME, SRC@-2h..-1h";
const FOCUS: &str = "Keep only stacks with a frame that matches this regular expression";
const IGNORE: &str = "Drop stacks with a frame that matches this regular expression";
const SAMPLE: &str = "What to count: live (bytes, the default), live-objects, allocated (bytes since the start) or allocations";

/// Form of a parameter.
#[derive(Clone, Copy)]
pub enum Form {
    /// One SRC.
    Source,
    /// Several words.
    Words,
    /// A text.
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A number of rows.
    Number,
    /// True or false.
    Flag,
    /// Name of a mark, or path of a profile.
    Profile,
}

/// A parameter of a question.
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
    Parameter { name, form: Form::Source, is_required: true, help }
}

const fn optional(name: &'static str, form: Form, help: &'static str) -> Parameter {
    Parameter { name, form, is_required: false, help }
}

const ROWS: Parameter = optional("rows", Form::Number, "Rows; 0 for all that fit");
const VIEWS: [&str; 7] = ["stacks", "functions", "lines", "tree", "callers", "sizes", "threads"];

/// All of them, in the order in which they are used.
pub const ALL: [Tool; 7] = [
    Tool {
        name: "list",
        help: "List the profiles of running and dead processes, the largest RSS first. Start here.",
        parameters: &[
            optional(
                "words",
                Form::Words,
                "Each must occur in the name, command line or path, or be the process ID",
            ),
            optional("running", Form::Flag, "Only running processes"),
            optional("user", Form::Text, "Only this user's processes"),
        ],
    },
    Tool {
        name: "report",
        help: "Show what is using the memory of a process: RSS as a sum of terms, and the stacks that hold the most live bytes, each with its 95% interval and age.",
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
                Form::Words => json!({ "type": "array", "items": { "type": "string" } }),
                Form::OneOf(values) => json!({ "type": "string", "enum": values }),
                Form::Number => json!({ "type": "integer", "minimum": 0 }),
                Form::Flag => json!({ "type": "boolean" }),
                Form::Source | Form::Text | Form::Profile => json!({ "type": "string" }),
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
                "{}: not a parameter of {}. Its parameters: {}, {MAX_BYTES}",
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

    /// The question that the call asks.
    pub fn question(&self, document: Document, names: Names) -> Result<Question, Failure> {
        let mut sources = Vec::new();
        let mut parameters = Vec::new();
        for parameter in self.tool.parameters {
            let Some(value) = self.values.get(parameter.name) else { continue };
            let wrong = |kind: &str| Failure::usage(format!("{}: not {kind}", parameter.name));
            let text = || value.as_str().ok_or_else(|| wrong("a string"));
            let mut put = |text: String| parameters.push((parameter.name.replace('_', "-"), text));
            match parameter.form {
                Form::Source => sources.push(checked(text()?)?),
                Form::Profile => put(checked(text()?)?),
                Form::Text | Form::OneOf(_) => put(text()?.to_owned()),
                Form::Number => {
                    put(value.as_u64().ok_or_else(|| wrong("a whole number"))?.to_string());
                }
                Form::Flag => {
                    if value.as_bool().ok_or_else(|| wrong("true or false"))? {
                        put(String::new());
                    }
                }
                Form::Words => {
                    for word in value.as_array().ok_or_else(|| wrong("a list of strings"))? {
                        let word = word.as_str().ok_or_else(|| wrong("a list of strings"))?;
                        parameters.push(("word".to_owned(), word.to_owned()));
                    }
                }
            }
        }
        let parameters = parameters.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        Question::parse(document, sources, names, parameters)
    }
}

/// Refuses what a model must not be talked into: reading the protocol's own input, waiting for what a pipe or a device may send, taking
/// lines of the kernel's log away, and going out to the network.
pub fn checked(source: &str) -> Result<String, Failure> {
    match Selector::parse(source)?.base {
        Base::Input => {
            Err(Failure::usage("-: standard input carries the protocol. Pass a process or a file"))
        }
        Base::Address(_) | Base::Database(_) => Err(Failure::usage(format!(
            "{source}: addresses are not fetched here. Save the profile to a file, and pass that"
        ))),
        Base::File(path) => check_stored(&path).map(|()| source.to_owned()),
        _ => Ok(source.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_analysis::question::Shown;

    fn question(tool: &str, values: Value) -> Result<Question, String> {
        let Value::Object(values) = values else { panic!("no object") };
        let call = Tool::named(tool).unwrap().call(Some(values));
        let document = Document::named(tool).unwrap();
        call.and_then(|call| call.question(document, Names::default()))
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn every_parameter_is_understood() {
        for tool in ALL.iter().filter(|tool| tool.name != "source") {
            let value = |parameter: &Parameter| match parameter.form {
                Form::Words => json!(["a"]),
                Form::OneOf(words) => json!(words[0]),
                Form::Number => json!(1),
                Form::Flag => json!(true),
                _ => json!(match parameter.name {
                    "user" => "0",
                    "count" => "live",
                    "min_age" => "1m",
                    _ => "1",
                }),
            };
            let values = tool.parameters.iter().map(|it| (it.name.to_owned(), value(it)));
            if let Err(failure) = question(tool.name, Value::Object(values.collect())) {
                panic!("{}: {failure}", tool.name);
            }
        }
    }

    #[test]
    fn a_call_asks_a_question() {
        let values = json!({ "source": "-x", "view": "functions", "rows": 3, "max_bytes": 9000 });
        let asked = question("report", values).unwrap();
        assert_eq!((asked.sources, asked.rows), (vec!["-x".to_owned()], 3));
        assert!(matches!(asked.view, Shown::Functions));
        let values = json!({ "words": ["redis", "--prune"], "running": true, "user": null });
        let wanted = question("list", values).unwrap().wanted;
        assert_eq!(wanted.words, ["redis", "--prune"]);
        assert!(wanted.is_running && wanted.user.is_none());
    }

    #[test]
    fn wrong_values_are_named() {
        for (tool, values, finding) in [
            ("report", json!({ "source": "1", "window": "1h" }), "window: not a parameter"),
            ("report", json!({}), "source: report needs it"),
            ("report", json!({ "source": 1 }), "source: not a string"),
            ("report", json!({ "source": "1", "rows": "all" }), "rows: not a whole number"),
            ("report", json!({ "source": "1", "max_bytes": 1 }), "max_bytes: not a number from"),
            ("report", json!({ "source": "-" }), "standard input carries the protocol"),
            ("report", json!({ "source": "1", "view": "pie" }), "view=pie: must be one of"),
            ("diff", json!({ "old": "http://x/", "new": "1" }), "addresses are not fetched"),
            ("leaks", json!({ "source": "1", "since": "https://x/" }), "addresses are not fetched"),
            ("report", json!({ "source": "/dev/null" }), "a device, not a regular file"),
            ("report", json!({ "source": "/proc/kmsg" }), "a kernel file"),
            ("report", json!({ "source": "/sys/kernel/uevent_seqnum" }), "a kernel file"),
            ("leaks", json!({ "source": "1", "since": "/proc/self/environ" }), "a kernel file"),
            ("list", json!({ "words": "x" }), "words: not a list"),
        ] {
            let refused = question(tool, values.clone()).err().expect(finding);
            assert!(refused.contains(finding), "{tool} {values}: {refused}");
        }
    }
}
