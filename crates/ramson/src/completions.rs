//! Completions: the scripts that tell a shell to ask ramson, and the answers.

use crate::flags::{self, Shell};
use crate::output::print_raw;
use clap_complete::CompleteEnv;
use clap_complete::env::{Bash, EnvCompleter, Fish, Shells, Zsh};
use ramson_source::Failure;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

/// Set by the scripts: the shell that asks.
const VARIABLE: &str = "RAMSON_COMPLETE";
const SHELLS: Shells<'static> = Shells(&[&OwnBash, &Fish, &OwnZsh]);

/// Answers and ends the process if a shell asks. Has to be called before anything else.
pub fn answer() {
    CompleteEnv::with_factory(flags::command).var(VARIABLE).shells(SHELLS).complete();
}

/// Prints the script of a shell.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    let shell = SHELLS.completer(shell.name()).expect("every shell has a script");
    shell.write_registration(VARIABLE, "ramson", "ramson", "ramson", &mut script)?;
    print_raw(&script)
}

/// As clap's own, except that a SRC may have colons: bash splits words there, and puts what it gets behind the last one.
struct OwnBash;

const BASH: &str = r#"_ramson() {
    local line=${COMP_LINE:0:COMP_POINT} words prefix IFS=$' \t\n'
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    local current=${words[-1]}
    IFS=$'\013'
    COMPREPLY=( $( _CLAP_IFS="$IFS" _CLAP_COMPLETE_INDEX=$(( ${#words[@]} - 1 )) VARIABLE=bash ramson -- "${words[@]}" 2> /dev/null ) )
    [[ ${COMPREPLY-} == *[=/:] ]] && compopt -o nospace
    prefix=${current%"${current##*[:=]}"}
    COMPREPLY=( "${COMPREPLY[@]#"$prefix"}" )
}
complete -o bashdefault -o nosort -F _ramson ramson
"#;

impl EnvCompleter for OwnBash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(
        &self,
        variable: &str,
        _: &str,
        _: &str,
        _: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        out.write_all(BASH.replace("VARIABLE", variable).as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        directory: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        Bash.write_complete(command, words, directory, out)
    }
}

/// As clap's own, except that it also works as a function that zsh loads when it is first needed.
struct OwnZsh;

const ZSH_LOADED: &str = r#"[[ ${funcstack[1]} == _ramson ]] && _clap_dynamic_completer_ramson "$@"
"#;

impl EnvCompleter for OwnZsh {
    fn name(&self) -> &'static str {
        "zsh"
    }

    fn is(&self, name: &str) -> bool {
        name == "zsh"
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        program: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        Zsh.write_registration(variable, name, program, completer, out)?;
        out.write_all(ZSH_LOADED.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        directory: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        Zsh.write_complete(command, words, directory, out)
    }
}
