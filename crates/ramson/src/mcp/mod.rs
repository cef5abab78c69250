//! `ramson mcp`: answers for agents, over the Model Context Protocol on standard input and output. Read-only.
//!
//! `tools` says what can be asked and turns a call into a question, `answer` makes verdict, evidence and next call of the document, `cut` makes it small. `server` is the protocol's side, which is all that knows `rmcp`.

mod answer;
mod cut;
mod server;
mod tools;

use crate::flags::McpFlags;
use answer::Settings;
use ramson_source::Failure;
use tokio::runtime::Builder;

/// Stack of a thread that reads profiles, in bytes: as large as that of a command's only thread.
const STACK_BYTES: usize = 8 << 20;

/// Answers until standard input ends.
pub fn mcp(flags: &McpFlags) -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("cannot serve: {error}. Try again"));
    let runtime = Builder::new_current_thread().enable_all().thread_stack_size(STACK_BYTES).build();
    let runtime = runtime.map_err(failed)?;
    let settings = Settings { names: flags.names.names(), source_roots: flags.source_root.clone() };
    let ended = runtime.block_on(server::serve(settings));
    // Profiles that are still being read are of no use any more.
    runtime.shutdown_background();
    ended
}
