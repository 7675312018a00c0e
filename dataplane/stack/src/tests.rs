//! A whole stack on a device in memory, in virtual time.

mod control;
mod ecn;
mod fixture;
mod fuzz;
mod hostile;
mod link;
mod many;
mod nic;
mod offloads;
mod ports;
mod segmentation;
mod transfer;
mod two_ends;
