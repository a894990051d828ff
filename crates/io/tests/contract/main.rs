//! What every driver of `Env` promises, asked of each of them.
//!
//! A scenario is a function of a [`Driver`]; the macro at the end makes one test of every pair.

#![allow(clippy::unwrap_used)] // Every line is part of a test.

mod drive;
mod files;
mod group;
mod harness;
mod mesh;
mod net;
mod tasks;

use harness::Driver;

macro_rules! contract {
    ($($module:ident :: $scenario:ident),* $(,)?) => {
        contract!(@ io_uring Driver::IoUring; $($module::$scenario),*);
        contract!(@ epoll Driver::Epoll; $($module::$scenario),*);
        contract!(@ simulated Driver::Simulated; $($module::$scenario),*);
    };
    (@ $name:ident $driver:expr; $($module:ident :: $scenario:ident),*) => {
        mod $name {
            use super::*;
            $(#[test] fn $scenario() { $module::$scenario($driver); })*
        }
    };
}

contract!(
    tasks::sleeping_tasks_wake_in_order,
    tasks::a_timeout_ends_what_takes_too_long,
    tasks::a_task_gives_its_result,
    tasks::what_runs_last_does_not_wait_for_all_others,
    tasks::a_cancelled_task_runs_no_more,
    tasks::a_dropped_handle_lets_the_task_go_on,
    tasks::a_panic_ends_one_task_only,
    tasks::tasks_that_are_left_are_dropped,
    tasks::local_channels_keep_order_and_bounds,
    tasks::a_channel_ends_with_its_last_strong_sender,
    tasks::a_notification_is_not_lost_with_who_waited,
    drive::the_background_reads_what_it_wrote,
    drive::who_gives_up_waiting_for_the_drive_harms_nobody,
    drive::a_shard_ends_after_what_its_drive_has_begun,
    group::groups_share_the_time,
    group::a_long_loop_gives_way,
    files::what_is_written_is_read,
    files::what_is_written_and_synced_is_read,
    files::reading_beyond_the_end_is_short,
    files::files_are_cut_and_filled,
    files::options_are_respected,
    files::names_change_and_go,
    files::folders_are_listed_in_order,
    files::files_know_when_they_were_changed,
    files::a_lock_is_for_one,
    files::direct_files_take_aligned_buffers,
    files::many_operations_at_once,
    files::an_abandoned_read_harms_nobody,
    files::a_file_is_closed_after_its_last_use,
    net::what_is_sent_is_acknowledged_though_nobody_reads,
    net::bytes_arrive_in_order,
    net::one_side_may_finish_first,
    net::a_slow_reader_slows_the_writer,
    net::many_connections_at_once,
    net::nobody_listens,
    net::a_closed_connection_ends_reading,
    net::an_abandoned_read_loses_nothing,
    net::a_connection_moves_to_another_shard,
    net::both_sides_write_much_at_once,
    mesh::messages_keep_their_order,
    mesh::a_full_ring_refuses_and_waits,
    mesh::a_sleeping_shard_is_woken,
    mesh::all_shards_talk_to_all,
);
