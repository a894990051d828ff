//! A run from its start to its report: warm-up, measurement, progress.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::{Clients, Load};
use crate::connection;
use crate::cpu::{self, Snapshots};
use crate::idle;
use crate::measurement::Counts;
use crate::options::{Command, Common, Options};
use crate::progress::Progress;
use crate::report::{Outcome, Report, Setting};
use crate::storm;
use crate::workload::Workload;

/// What is measured, and for how long.
struct Plan {
    name: String,
    warmup: Duration,
    duration: Option<Duration>,
    operations: Option<u64>,
}

/// Does what the command line says.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    match &options.command {
        Command::Load {
            drop,
            replication_factor,
            with,
            common,
        } => {
            create(common, *replication_factor, with.as_deref(), *drop)?;
            let plan = Plan {
                name: "load".to_owned(),
                warmup: Duration::ZERO,
                duration: None,
                operations: Some(common.records),
            };
            send(common, &plan, Workload::load())
        }
        Command::Run {
            workload,
            distribution,
            warmup,
            duration,
            operations,
            common,
        } => {
            let unlimited = duration.is_none() && operations.is_none();
            let plan = Plan {
                name: format!("{workload:?}").to_lowercase(),
                warmup: *warmup,
                duration: if unlimited {
                    Some(Duration::from_secs(30))
                } else {
                    *duration
                },
                operations: *operations,
            };
            // How many operations a time will bring, nobody knows: as many as there are records.
            let expected = operations.unwrap_or(common.records);
            let workload = Workload::new(*workload, *distribution, common.records, expected);
            send(common, &plan, workload)
        }
        Command::Storm(options) => storm::run(options),
        Command::Idle(options) => idle::run(options),
    }
}

fn create(
    options: &Common,
    replication_factor: u32,
    with: Option<&str>,
    drop: bool,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let created = runtime.block_on(connection::create(options, replication_factor, with, drop));
    created.map_err(|error| error.to_string())
}

/// Sends the requests of a workload, and reports.
fn send(common: &Common, plan: &Plan, workload: Workload) -> Result<(), String> {
    let clients = common.measuring.client_threads.unwrap_or_else(cpu::cores);
    let clients = clients.clamp(1, common.threads.max(1));
    let load = Arc::new(Load::new(common.clone(), workload, clients));
    measure(&load, plan)?.publish(common.measuring.out.as_deref())
}

fn measure(load: &Arc<Load>, plan: &Plan) -> Result<Report, String> {
    let options = &load.options;
    // Known before the load starts: a wrong process id must not cost a run.
    Snapshots::take(&options.measuring.pids)?;
    let clients = Clients::connect(load)?;
    let mut progress = Progress::new(options.measuring.progress);
    clients.start(load);
    if !plan.warmup.is_zero() {
        progress.follow(
            &load.recorders,
            || clients.finished(),
            "warm-up",
            Some(plan.warmup),
            &mut Counts::new(),
        );
    }
    if let Some(operations) = plan.operations {
        load.gate.limit_to(operations);
    }
    discard(load);
    let before = Snapshots::take(&options.measuring.pids)?;
    let start = Instant::now();
    progress.measure_from(start);
    let mut counts = Counts::new();
    progress.follow(
        &load.recorders,
        || clients.finished(),
        &plan.name,
        plan.duration,
        &mut counts,
    );
    let elapsed = start.elapsed();
    let after = Snapshots::take(&options.measuring.pids)?;
    load.gate.stop();
    clients.join()?;
    progress.end();
    let due = options
        .rate
        .map_or(0, |rate| (rate as f64 * elapsed.as_secs_f64()) as u64);
    Ok(Report::new(
        Setting::of_requests(&plan.name, options),
        Outcome {
            elapsed,
            due,
            counts,
            since_begun: None,
            usage: before.usage_until(&after),
            stolen: before.stolen_until(&after),
            intervals: progress.intervals,
        },
    ))
}

fn discard(load: &Load) {
    let mut discarded = Counts::new();
    for recorder in &load.recorders {
        recorder.drain(&mut discarded);
    }
}
