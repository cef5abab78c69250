//! `ramson man`: the man pages, which are made from the flags.

use crate::flags::{self, ManFlags};
use crate::output::print_raw;
use crate::output_file::cannot_write;
use clap::Command;
use clap_mangen::Man;
use ramson_source::Failure;

pub fn man(flags: &ManFlags) -> Result<(), Failure> {
    // The pages are the help.
    let mut command = flags::command().disable_help_subcommand(true);
    command.build();
    let is_shown = |command: &&Command| !command.is_hide_set();
    if let Some(directory) = &flags.dir {
        for of in [&command].into_iter().chain(command.get_subcommands().filter(is_shown)) {
            page(of).generate_to(directory).map_err(|error| cannot_write(directory, &error))?;
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
    let mut out = Vec::new();
    page(found).render(&mut out)?;
    print_raw(&out)
}

fn page(command: &Command) -> Man {
    let version = concat!("ramson ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(version).manual("ramson")
}
