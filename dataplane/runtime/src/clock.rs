//! The clock door of workers: the time stamp counter where the device layer finds it sound, and the
//! operating system's monotonic clock elsewhere. A worker reads it once per turn.

#[cfg(feature = "dpdk")]
pub(crate) use with_dpdk::TimeBase;
#[cfg(not(feature = "dpdk"))]
pub(crate) use without_dpdk::TimeBase;

#[cfg(feature = "dpdk")]
mod with_dpdk {
    /// All workers of a process share one, so that their times compare.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct TimeBase(dpdk::clock::TimeBase);

    pub(crate) type WorkerClock = dpdk::clock::TscClock;

    impl TimeBase {
        /// A time base that begins now; finding out how fast the counter runs takes 20 ms.
        pub(crate) fn start() -> Self {
            Self(dpdk::clock::TimeBase::calibrate())
        }

        /// A clock for one thread.
        pub(crate) fn clock(self) -> WorkerClock {
            self.0.clock()
        }
    }
}

#[cfg(not(feature = "dpdk"))]
mod without_dpdk {
    use base::{Clock, Instant};

    /// All workers of a process share one, so that their times compare.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct TimeBase(std::time::Instant);

    /// Time since the base was made.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct WorkerClock(TimeBase);

    impl TimeBase {
        /// A time base that begins now.
        pub(crate) fn start() -> Self {
            Self(std::time::Instant::now())
        }

        /// A clock for one thread.
        pub(crate) fn clock(self) -> WorkerClock {
            WorkerClock(self)
        }
    }

    impl Clock for WorkerClock {
        fn now(&self) -> Instant {
            let nanos = self.0.0.elapsed().as_nanos();
            Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        }
    }
}
