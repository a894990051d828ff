//! What the kernel is told of the turns of a thread (sched(7), `Documentation/scheduler/sched-eevdf.rst` of Linux).

/// How many times as long as others' is the slice of a thread that gives way. Who wakes when less of it is left than a slice of
/// its own waits all the same: one time in so many.
const LONGER: u64 = 16;

/// Whoever wakes on the calling thread's processor has its turn at once.
///
/// The kernel ends a write that the drive is to have in a worker of the processor that the drive's interrupt came to, in two
/// or three steps. A thread that never sleeps goes on there until its slice is over, which the kernel looks at with each of
/// its ticks: up to 4 ms, for each of the steps. But one whose slice is longer than that of who wakes is interrupted
/// (`PREEMPT_SHORT` of Linux 6.12), and has its part of the processor all the same. Shards that share a processor do not wait
/// longer for each other, as they sleep in between; those that never do wait a slice.
///
/// Older kernels know no slices of single threads, and whoever runs the node by another policy than the usual one knows why:
/// nothing is changed then.
pub(crate) fn give_way() {
    let Some(mut attributes) = attributes() else {
        return;
    };
    if attributes.sched_policy == libc::SCHED_OTHER.cast_unsigned() && attributes.sched_runtime > 0
    {
        attributes.sched_runtime *= LONGER;
        set(&attributes);
    }
}

/// The calling thread has turns as all others do, whoever it was made by: threads inherit how they have them.
pub(crate) fn take_usual_turns() {
    if let Some(mut attributes) = attributes() {
        attributes.sched_runtime = 0;
        set(&attributes);
    }
}

/// The thread gives way to every other one that wants its processor (`SCHED_IDLE`, sched(7)).
pub(crate) fn run_when_idle() {
    // SAFETY: it only reads the parameter, which is valid, and changes nothing but this thread's turn.
    let result = unsafe {
        let parameter: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter)
    };
    // Every thread may be more modest than it was.
    debug_assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Those of the calling thread, if one may know them (sched_getattr(2)). `sched_runtime` is its slice in nanoseconds, zero
/// where the kernel knows none of single threads.
fn attributes() -> Option<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>();
    // SAFETY: all of its fields are numbers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: as many bytes as there is room for are written there.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    (result == 0).then_some(attributes)
}

/// Gives the calling thread these (sched_setattr(2)).
fn set(attributes: &libc::sched_attr) {
    // SAFETY: it only reads them, as far as they say that they go, and changes nothing but this thread's turn.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            0,
            std::ptr::from_ref(attributes),
            0,
        )
    };
    if result != 0 {
        let error = std::io::Error::last_os_error();
        tracing::debug!("the slice of a thread stays as it is: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_a_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(act).join().unwrap())
    }

    #[test]
    fn who_gives_way_has_a_longer_slice_and_nothing_else() {
        let (usual, after) = in_a_thread(|| {
            let usual = attributes().unwrap();
            give_way();
            (usual, attributes().unwrap())
        });
        assert_eq!(after.sched_runtime, LONGER * usual.sched_runtime);
        assert_eq!(after.sched_policy, usual.sched_policy);
        assert_eq!(after.sched_nice, usual.sched_nice);
    }

    #[test]
    fn a_thread_made_by_one_that_gives_way_may_have_usual_turns() {
        let usual = in_a_thread(|| attributes().unwrap());
        let (inherited, after) = in_a_thread(|| {
            give_way();
            in_a_thread(|| {
                let inherited = attributes().unwrap();
                take_usual_turns();
                (inherited, attributes().unwrap())
            })
        });
        assert_eq!(inherited.sched_runtime, LONGER * usual.sched_runtime);
        assert_eq!(after.sched_runtime, usual.sched_runtime);
    }

    #[test]
    fn who_runs_when_idle_keeps_to_that() {
        let policy = in_a_thread(|| {
            run_when_idle();
            give_way();
            attributes().unwrap().sched_policy
        });
        assert_eq!(policy, libc::SCHED_IDLE.cast_unsigned());
    }
}
