//! Openraft's own suites: of its runtime, and of what stores its log.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use io::{DriverChoice, Runtime, RuntimeConfig};
use openraft::StorageError;
use openraft::rt::testing::Suite;
use openraft::testing::log::StoreBuilder;

use super::super::current::current;
use super::super::{Machine, Member, Metadata, ShardRuntime, open, within};
use super::metadata::Tables;
use super::store::{List, Log, Numbers};

#[test]
fn the_suite_of_the_runtime_passes_in_the_simulator() {
    Suite::<ShardRuntime>::test_all();
}

/// All that the suite lets others call one by one. `test_all` wants a runtime that polls a future
/// where it is called, which only a simulated shard does; what is left out by that (selects, which
/// we do not override, and peeking into a channel) has nothing to do with the driver.
async fn suite_on_a_shard() {
    type On = Suite<ShardRuntime>;
    On::test_spawn_join_handle().await;
    On::test_thread_rng().await;
    On::test_sleep().await;
    On::test_instant().await;
    On::test_instant_arithmetic().await;
    On::test_instant_sub_instant().await;
    On::test_instant_saturating_duration_since().await;
    On::test_instant_ord().await;
    On::test_sleep_until().await;
    On::test_timeout().await;
    On::test_timeout_at().await;
    On::test_mpsc_recv_empty().await;
    On::test_mpsc_recv_channel_closed().await;
    On::test_mpsc_weak_sender_wont_prevent_channel_close().await;
    On::test_mpsc_weak_sender_upgrade().await;
    On::test_mpsc_send().await;
    On::test_mpsc_send_to_closed_channel().await;
    On::test_mpsc_backpressure().await;
    On::test_watch_init_value().await;
    On::test_watch_overwrite_init_value().await;
    On::test_watch_send_error_no_receiver().await;
    On::test_watch_send_if_modified().await;
    On::test_watch_wait_until_ge().await;
    On::test_watch_wait_until().await;
    On::test_watch_changed_marks_as_seen().await;
    On::test_watch_borrow_and_update_marks_seen().await;
    On::test_watch_changed_returns_immediately_when_unseen().await;
    On::test_watch_multiple_borrow_then_changed().await;
    On::test_watch_wait_loop_pattern().await;
    On::test_watch_multiple_receivers().await;
    On::test_watch_subscribe().await;
    On::test_watch_send_if_different().await;
    On::test_watch_send_if_greater().await;
    On::test_oneshot_drop_tx().await;
    On::test_oneshot().await;
    On::test_oneshot_send_from_another_task().await;
    On::test_oneshot_send_to_dropped_rx().await;
    On::test_mutex().await;
    On::test_mutex_contention().await;
    On::test_mutex_lock_owned().await;
    On::test_task_local().await;
    On::test_task_local_on_completion_drop().await;
    On::test_task_local_take_value().await;
    On::test_task_local_poll_after_take_value().await;
    On::test_task_local_get_value().await;
}

#[test]
fn the_suite_of_the_runtime_passes_on_real_shards() {
    for driver in [DriverChoice::Auto, DriverChoice::Epoll] {
        let config = RuntimeConfig {
            driver,
            ..RuntimeConfig::default()
        };
        let ended = Arc::new(AtomicBool::new(false));
        let told = ended.clone();
        let runtime = Runtime::start(config, move |env| {
            let told = told.clone();
            async move {
                within(&env, suite_on_a_shard()).await;
                told.store(true, Ordering::SeqCst);
            }
        });
        runtime.expect("it starts").join().expect("it passes");
        assert!(ended.load(Ordering::SeqCst));
    }
}

/// Makes the stores of the tests.
struct Builder;

impl StoreBuilder<Numbers, Log, List> for Builder {
    async fn build(&self) -> Result<((), Log, List), StorageError<Numbers>> {
        Ok(((), Log::default(), List::default()))
    }
}

#[test]
fn the_suite_of_storages_passes() {
    use openraft::AsyncRuntime;
    use openraft::testing::log::Suite;
    let passed = ShardRuntime::run(Suite::test_all(Builder));
    passed.expect("the store of the tests is right");
}

/// The suite makes members by number alone.
impl Default for Member {
    fn default() -> Member {
        let address = SocketAddr::from(([127, 0, 0, 1], 7000));
        Member { address }
    }
}

/// Makes logs and machines on the drive, each in a folder of its own.
#[derive(Default)]
struct DriveBuilder {
    built: AtomicU64,
}

impl StoreBuilder<Metadata, super::super::Log, Machine<Tables>> for DriveBuilder {
    async fn build(
        &self,
    ) -> Result<((), super::super::Log, Machine<Tables>), StorageError<Metadata>> {
        let env = current();
        let folder = format!("/{}", self.built.fetch_add(1, Ordering::Relaxed));
        let folder = Path::new(&folder);
        let made = env.create_dir_all(folder).await;
        made.expect("the drive is good");
        let opened = open(&env, folder, Tables::default()).await;
        let (log, machine) = opened.expect("the drive is good");
        Ok(((), log, machine))
    }
}

#[test]
fn the_suite_of_storages_passes_on_the_drive() {
    use openraft::AsyncRuntime;
    use openraft::testing::log::Suite;
    let passed = ShardRuntime::run(Suite::test_all(DriveBuilder::default()));
    passed.expect("the log on the drive is right");
}
