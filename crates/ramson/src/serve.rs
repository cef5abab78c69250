//! `ramson serve`: profiles over HTTP.

use crate::flags::ServeFlags;
use crate::open::Door;
use crate::output::{print_raw, remark};
use ramson_serve::{Options, Sources, Token};
use ramson_source::Failure;
use std::io::{self, IsTerminal};

pub fn serve(flags: &ServeFlags) -> Result<(), Failure> {
    let sources = Sources::new(flags.sources.clone());
    let first = sources.check()?;
    let token = flags.token_file.as_deref().map_or_else(Token::random, Token::of_file)?;
    let options = Options {
        address: flags.listen.clone(),
        hosts: flags.allow_host.clone(),
        token,
        sources,
        first,
        names: flags.names.names(),
        source_roots: flags.source_root.clone(),
        allows_actions: flags.allow_actions,
    };
    // A service's standard output is a log, and the file has the token.
    let is_log = flags.token_file.is_some() && !io::stdout().is_terminal();
    let mut door = None;
    ramson_serve::serve(options, |with_token, alone| {
        print_raw(format!("{}\n", if is_log { alone } else { with_token }).as_bytes())?;
        if flags.open {
            door = Door::open(with_token).map_err(remark).ok();
        }
        Ok(())
    })
}
