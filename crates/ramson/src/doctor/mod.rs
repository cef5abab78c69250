//! `ramson doctor`: what a process's resident memory is, and what its allocator keeps of it. Stops no thread unless
//! `--ask` is given.

mod advice;
mod ask;
pub mod examine;
mod map;
mod object;
mod pins;
mod reasons;
pub mod target;
mod text;

use crate::cli::DoctorOptions;
use crate::failure::Failure;
use crate::text as output;

pub fn doctor(options: &DoctorOptions) -> Result<(), Failure> {
    let target = target::find(&options.source)?;
    let finding = examine::examine(&target, options)?;
    let advice = advice::advice(&finding);
    if options.json {
        return output::print(&format!("{}\n", object::object(&finding, &advice)));
    }
    output::print(&text::table(&finding, &advice, options.top))
}
