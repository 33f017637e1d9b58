//! Nested marks.

use super::*;

#[pumice_test_macros::test]
fn marks_of_several_databases() {
    let (one, other) = (Mark::new(), Mark::new());
    assert!(!one.is_inside());
    let job = one.enter_job();
    assert!(one.is_inside() && !one.is_locked() && !other.is_inside());
    let locked = other.enter_locked();
    assert!(one.is_inside() && !one.is_locked() && other.is_inside() && other.is_locked());
    assert!(one.check_may_lock().is_ok() && one.check_may_wait().is_err());
    drop(locked);
    drop(job);
    assert!(!one.is_inside() && !other.is_inside());
}

#[pumice_test_macros::test]
fn too_many_inside_each_other_count_as_all() {
    let (one, other) = (Mark::new(), Mark::new());
    let mut entered: Vec<_> = (0..DEPTH_MAX).map(|_| one.enter_job()).collect();
    assert!(!other.is_inside());
    entered.push(one.enter_job());
    assert!(other.is_locked());
    entered.clear();
    assert!(!one.is_inside() && !other.is_locked());
}
