//! Root's ramson beside processes and files of users who mean harm.

mod absence;
mod apart;
mod files;
mod looked_at;
mod mute;
mod profiles;
