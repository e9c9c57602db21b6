//! The object that is open on each CPU.

use std::collections::BTreeMap;

use super::{Followed, Present};
use crate::Error;

/// One `T` for each CPU, in ascending order. Some CPUs may lack it.
#[derive(Debug)]
pub(crate) struct PerCpu<T> {
    open: BTreeMap<u32, T>,
}

impl<T> Default for PerCpu<T> {
    fn default() -> Self {
        Self { open: BTreeMap::new() }
    }
}

impl<T> PerCpu<T> {
    /// Opens a `T` on each of `cpus`; `open` returns none for an offline CPU.
    ///
    /// # Errors
    /// The first error; everything that was opened before is closed.
    pub fn open(cpus: &[u32], mut open: impl FnMut(u32) -> Result<Option<T>, Error>) -> Result<Self, Error> {
        let mut opened = BTreeMap::new();
        for &cpu in cpus {
            opened.extend(open(cpu)?.map(|one| (cpu, one)));
        }
        Ok(Self { open: opened })
    }

    /// Passes to `close` the objects of CPUs that are offline or were so meanwhile. Then opens objects on online CPUs
    /// that lack one; `open` returns none for an offline CPU.
    pub fn follow(
        &mut self,
        now: &Present,
        mut close: impl FnMut(u32, T),
        mut open: impl FnMut(u32) -> Result<Option<T>, Error>,
    ) -> Followed {
        let mut followed = Followed::default();
        let has_gone = |cpu: &u32, _: &mut T| !now.online.contains(cpu) || now.ended.contains(cpu);
        for (cpu, one) in self.open.extract_if(.., has_gone) {
            close(cpu, one);
            followed.closed.push(cpu);
        }
        for &cpu in &now.online {
            if self.open.contains_key(&cpu) {
                continue;
            }
            match open(cpu) {
                Ok(Some(one)) => {
                    self.open.insert(cpu, one);
                    followed.opened.push(cpu);
                }
                Ok(None) => followed.missing.push((cpu, None)),
                Err(error) => followed.missing.push((cpu, Some(error))),
            }
        }
        followed
    }

    /// The object of this CPU.
    pub fn get(&self, cpu: u32) -> Option<&T> {
        self.open.get(&cpu)
    }

    /// The objects by CPU.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.open.iter().map(|(&cpu, one)| (cpu, one))
    }

    /// The objects by CPU, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.open.iter_mut().map(|(&cpu, one)| (cpu, one))
    }

    /// The CPUs with an object.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.open.keys().copied()
    }

    /// Whether nothing is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Opens the number of the attempt on each CPU, except on offline and refusing ones.
    struct Opener {
        attempts: u32,
        offline: Vec<u32>,
        refusing: Vec<u32>,
    }

    impl Opener {
        fn new() -> Self {
            Self { attempts: 0, offline: Vec::new(), refusing: Vec::new() }
        }

        fn open(&mut self, cpu: u32) -> Result<Option<u32>, Error> {
            self.attempts += 1;
            if self.refusing.contains(&cpu) {
                return Err(Error::Open {
                    event: "x".to_owned(),
                    cpu,
                    source: std::io::Error::from_raw_os_error(24),
                });
            }
            Ok((!self.offline.contains(&cpu)).then_some(self.attempts))
        }

        fn follow(&mut self, held: &mut PerCpu<u32>, online: &[u32], ended: &[u32]) -> (Followed, Vec<u32>) {
            let now = Present { online: online.to_vec(), ended: ended.to_vec() };
            let mut closed = Vec::new();
            let followed = held.follow(&now, |_, one| closed.push(one), |cpu| self.open(cpu));
            (followed, closed)
        }
    }

    fn held(per_cpu: &PerCpu<u32>) -> Vec<(u32, u32)> {
        per_cpu.iter().map(|(cpu, &one)| (cpu, one)).collect()
    }

    fn missing(followed: &Followed) -> Vec<(u32, bool)> {
        followed.missing.iter().map(|(cpu, error)| (*cpu, error.is_some())).collect()
    }

    #[test]
    fn objects_follow_their_cpus() {
        let mut opener = Opener { offline: vec![2], ..Opener::new() };
        let mut per_cpu = PerCpu::open(&[0, 1, 2, 3], |cpu| opener.open(cpu)).unwrap();
        assert_eq!(held(&per_cpu), [(0, 1), (1, 2), (3, 4)], "an offline CPU is left out");
        opener.offline.clear();
        let (followed, closed) = opener.follow(&mut per_cpu, &[0, 1, 3], &[]);
        assert!(closed.is_empty() && followed.closed.is_empty() && followed.opened.is_empty());
        assert_eq!(opener.attempts, 4, "nothing is opened twice");

        let (followed, closed) = opener.follow(&mut per_cpu, &[0, 2, 3], &[]);
        assert_eq!((followed.closed, closed, followed.opened), (vec![1], vec![2], vec![2]));
        assert_eq!(held(&per_cpu), [(0, 1), (2, 5), (3, 4)]);
    }

    #[test]
    fn a_cpu_that_was_offline_for_a_moment_gets_a_new_object() {
        let mut opener = Opener::new();
        let mut per_cpu = PerCpu::open(&[0, 1], |cpu| opener.open(cpu)).unwrap();
        // A CPU that has ended and is offline now is closed once.
        let (followed, closed) = opener.follow(&mut per_cpu, &[0], &[0, 1]);
        assert_eq!((followed.closed, closed, followed.opened), (vec![0, 1], vec![1, 2], vec![0]));
        assert_eq!(held(&per_cpu), [(0, 3)]);
    }

    #[test]
    fn a_failure_does_not_affect_other_cpus_and_is_retried() {
        let mut opener = Opener::new();
        let mut per_cpu = PerCpu::open(&[0], |cpu| opener.open(cpu)).unwrap();
        opener.refusing = vec![1, 0];
        opener.offline = vec![2];
        let (followed, _) = opener.follow(&mut per_cpu, &[0, 1, 2, 3], &[]);
        assert_eq!((&followed.opened[..], missing(&followed)), (&[3][..], vec![(1, true), (2, false)]));
        opener.refusing.clear();
        let (followed, _) = opener.follow(&mut per_cpu, &[0, 1, 2, 3], &[]);
        assert_eq!((&followed.opened[..], missing(&followed)), (&[1][..], vec![(2, false)]));
        opener.refusing = vec![1];
        assert!(PerCpu::open(&[0, 1], |cpu| opener.open(cpu)).is_err(), "the first attempt needs all CPUs");
    }

    proptest! {
        #[test]
        fn each_online_cpu_has_an_object_opened_since_it_came_online(
            looks in proptest::collection::vec(
                (proptest::collection::btree_set(0..6u32, 0..6), proptest::collection::btree_set(0..6u32, 0..6)), 1..20)
        ) {
            let mut opener = Opener::new();
            let mut per_cpu = PerCpu::default();
            let (mut opened, mut closed) = (BTreeSet::new(), BTreeSet::new());
            let mut before = BTreeMap::new();
            for (online, ended) in looks {
                let online: Vec<u32> = online.into_iter().collect();
                let ended: Vec<u32> = ended.into_iter().collect();
                closed.extend(opener.follow(&mut per_cpu, &online, &ended).1);
                let after: BTreeMap<u32, u32> = held(&per_cpu).into_iter().collect();
                prop_assert_eq!(after.keys().copied().collect::<Vec<_>>(), online);
                for (cpu, one) in &after {
                    let stayed = before.contains_key(cpu) && !ended.contains(cpu);
                    prop_assert_eq!(before.get(cpu) == Some(one), stayed);
                }
                opened.extend(after.values().copied());
                before = after;
            }
            let open: BTreeSet<u32> = before.values().copied().collect();
            prop_assert!(closed.is_disjoint(&open), "a closed object is not kept");
            prop_assert_eq!(closed.union(&open).count(), opened.len(), "every dropped object was closed");
        }
    }
}
