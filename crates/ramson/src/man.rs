//! `ramson man`: the man pages, which are made from the flags.

use crate::flags::{self, ManFlags};
use crate::output::print_raw;
use crate::output_file::cannot_write;
use clap::Command;
use clap_mangen::Man;
use ramson_source::Failure;
use std::{fs, io};

pub fn man(flags: &ManFlags) -> Result<(), Failure> {
    // The pages are the help.
    let mut command = flags::command().disable_help_subcommand(true);
    command.build();
    let is_shown = |command: &&Command| !command.is_hide_set();
    if let Some(directory) = &flags.dir {
        fs::create_dir_all(directory).map_err(|error| cannot_write(directory, &error))?;
        for of in [&command].into_iter().chain(command.get_subcommands().filter(is_shown)) {
            let path = directory.join(page(of).get_filename());
            fs::write(&path, text(of)?).map_err(|error| cannot_write(&path, &error))?;
        }
        return Ok(());
    }
    let found = match &flags.command {
        None => Some(&command),
        Some(name) => command.find_subcommand(name).filter(is_shown),
    };
    let Some(found) = found else {
        let name = flags.command.as_deref().unwrap_or_default();
        return Err(Failure::usage(format!(
            "{name}: no such command. \"ramson --help\" lists them"
        )));
    };
    print_raw(text(found)?.as_bytes())
}

fn text(command: &Command) -> io::Result<String> {
    let mut out = Vec::new();
    page(command).render(&mut out)?;
    // clap_mangen's name for what comes last in the help.
    Ok(String::from_utf8_lossy(&out).replace(".SH EXTRA\n", ".SH NOTES\n"))
}

fn page(command: &Command) -> Man {
    let version = concat!("ramson ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(version).manual("ramson")
}
