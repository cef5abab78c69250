use super::*;

#[test]
fn malloc_agrees_with_dlsym() {
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    for name in [c"malloc", c"free", c"posix_memalign", c"_exit"] {
        let (address, _) = find_next(name, 0).unwrap();
        // SAFETY: a NULL handle is RTLD_DEFAULT.
        let expected = unsafe { dlsym(core::ptr::null_mut(), name.as_ptr()) };
        assert_eq!(address, expected as usize, "{name:?}");
    }
    assert!(find_next(c"no_such_function_anywhere", 0).is_none());
}

#[test]
fn object_is_found_without_lock() {
    let found = object_at(find_next(c"malloc", 0).unwrap().0 as u64).unwrap();
    // SAFETY: libc is never unloaded, its name is a C string.
    let name = unsafe { CStr::from_ptr((*found.link_map).name) };
    assert!(name.to_str().unwrap().contains("libc.so"));
    assert!(object_at(16).is_none());
}
