//! Commands that act on a running program: attach, detach, set and trim.

mod attach;
mod attach_harm;
mod attach_inside;
mod attach_refusals;
mod attached_words;
mod trim;
mod trim_refusals;
mod trim_seccomp;
