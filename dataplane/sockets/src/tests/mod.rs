//! Conversations of two hosts, and tables of what each call says in each state.

mod basic;
mod data;
mod epoll;
mod net;
mod options;
mod random;
mod states;
