use super::*;
use crate::estimate::Estimate;
use crate::{LookupAddress, StackSample};

fn function(name: &str, file: &str) -> Function {
    Function { name: name.into(), system_name: "".into(), file: file.into() }
}

const LIBRARIES: &[&str] = &[
    "std::vector<acme::Session, std::allocator<acme::Session> >::_M_realloc_insert(int)",
    "void std::vector<char, std::allocator<char> >::_M_range_insert<char*>(char*, char*)",
    "std::unique_ptr<acme::X> std::make_unique<acme::X>()",
    "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
    "_ZNSt6vectorIcSaIcEE17_M_realloc_insertEv",
    "alloc::vec::Vec<T>::with_capacity",
    "<alloc::string::String as core::clone::Clone>::clone",
    "<u8 as alloc::slice::hack::ConvertVec>::to_vec",
    "<alloc::vec::Vec<u8>>::with_capacity",
    "<alloc::raw_vec::RawVec<(u8, u16), alloc::alloc::Global>>::try_allocate_in",
    "hashbrown::raw::RawTable<T,A>::reserve_rehash",
    "xmalloc",
    "xcalloc",
    "xstrdup",
    "zmalloc_usable",
    "ztrymalloc_usable_internal",
    "_sdsnewlen",
    "g_malloc0",
    "g_strdup",
    "PyMem_RawMalloc",
    "_PyObject_GC_New",
    "PyType_GenericAlloc",
    "new_keys_object",
    "_PyObject_ArenaMmap",
    "my_malloc",
    "alloc_root",
    "init_alloc_root",
    "init_sql_alloc",
    "MEM_ROOT::AllocSlow(unsigned long)",
    "mem_heap_create_block_func",
    "ut_allocator<unsigned char, true>::allocate(unsigned long)",
    "ggc_internal_alloc(unsigned long, void (*)(void*), unsigned long, unsigned long)",
    "void va_gc::reserve<tree_node*, va_gc>(vec<tree_node*, va_gc, vl_embed>*&, unsigned int, bool)",
    "v8::internal::StringTable::Data::Resize(v8::internal::Isolate*)",
    "v8::internal::(anonymous namespace)::IterateObjectCache(v8::internal::Isolate*)",
    "ossl_sa_set",
    "palloc0",
    "MemoryContextAllocZero",
    "AllocSetAlloc",
    "sqlite3DbMallocRawNN",
    "ngx_palloc",
    "CRYPTO_zalloc",
    "os::malloc(unsigned long, MEMFLAGS)",
    "_PyEval_EvalFrameDefault",
    "PyObject_Vectorcall",
    "java.nio.DirectByteBuffer.<init>(int)",
    "Builtin:InterpreterEntryTrampoline",
    "JavaCalls::call_helper(JavaValue*, methodHandle const&, JavaCallArguments*, JavaThread*)",
    "__libc_start_call_main",
    "v8::internal::BackingStore::Allocate(v8::internal::Isolate*, unsigned long)",
    "node::NodeArrayBufferAllocator::AllocateUninitialized(unsigned long)",
    "node::Buffer::(anonymous namespace)::CreateUnsafeArrayBuffer(v8::FunctionCallbackInfo<v8::Value> const&)",
    "Builtins_JSEntryTrampoline",
    "std.array.array!(std.range.iota!(int, int).iota.Result).array",
    "core.internal.gc.impl.conservative.gc.Gcx.newPool",
    "rt.lifetime.__arrayAlloc",
    "_d_run_main2",
    "Stdlib.Bigarray.create",
    "caml_ba_alloc",
    "_gfortran_st_write",
];

const OWN: &[&str] = &[
    "<alloc::vec::Vec<u8> as shop::Sum>::sum",
    "<alloc::vec::Vec<shop::Item<u8>> as shop::Sum>::sum",
    "main",
    "acme::Catalog::load(unsigned long)",
    "std::vector<int> acme::make<int>(int)",
    "<acme::Session as core::clone::Clone>::clone",
    "stdio_open",
    "create_string_object",
    "mallocate",
    "zmalloc_trim_all",
    "allocate",
    "xml_parse",
    "PyDict_New",
    "palloc_everything",
    "sqlite3VdbeExec",
    "PyList_New",
    "Builtins",
    "InterpreterPool::load()",
    "javacc::parse",
    "com.acme.Rows.parse(int)",
    "node::Tree::insert(int)",
    "Buffer::append(char const*)",
    "core.load",
    "std_array",
    "camlApp__entry",
    "rt.Cache!(int).Cache.load",
    "gc_alloc_all",
    "Prepared_statement::Prepared_statement(THD*)",
    "alloc_root_node",
    "ggc_collect",
    "my_hash_insert",
];

#[test]
fn library_frames_are_recognized() {
    let rules = OwnFrames::default();
    for name in LIBRARIES {
        assert!(rules.is_function(&function(name, "")), "{name}");
    }
    for name in OWN {
        assert!(!rules.is_function(&function(name, "/src/a.c")), "{name}");
    }
    for (file, is_library) in [
        ("/usr/include/c++/12/bits/stl_vector.h", true),
        ("/rustc/2c8144afbd8dfbb0bbc4a8c0ae4f2ca1d7b0a2c1/library/alloc/src/raw_vec.rs", true),
        ("/build/app/include/vector.h", false),
        ("/usr/lib/python3.12/json/decoder.py", true),
        ("/srv/venv/lib/python3.12/site-packages/flask/app.py", false),
        ("/srv/app/lib/load.py", false),
        ("node:internal/buffer", true),
        ("/srv/node_modules/express/index.js", false),
    ] {
        assert_eq!(rules.is_function(&function("f", file)), is_library, "{file}");
    }
    for (path, is_library) in [
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", true),
        ("/lib/libc-2.31.so", true),
        ("/usr/lib/libstdc++.so.6.0.30", true),
        ("/lib64/ld-linux-x86-64.so.2", true),
        ("/usr/lib/libcrypto.so.3", false),
        ("/usr/bin/libc.so-like", false),
    ] {
        let mapping = Mapping { path: path.into(), ..mapping() };
        assert_eq!(rules.takes_all_of(&mapping), is_library, "{path}");
    }
    let pattern = |text| vec![Pattern::new(text).unwrap()];
    let added = OwnFrames::new(pattern("libcrypto|^boost::"), pattern("^pool_"));
    assert!(added.is_function(&function("boost::container::f()", "")));
    assert!(added.is_function(&function("pool_get", "")));
    assert!(added.takes_all_of(&Mapping { path: "/usr/lib/libcrypto.so.3".into(), ..mapping() }));
}

fn mapping() -> Mapping {
    Mapping {
        start: 0,
        end: 4096,
        file_offset: 0,
        bias: 0,
        path: "/bin/prog".into(),
        build_id: String::new(),
        ..Mapping::default()
    }
}

/// Functions: 0 main, 1 acme::load, 2 std::f. Locations: 0 main, 1 acme::load, 2 std::f, 3 std::f inlined into acme::load,
/// 4 without a name in the C library, 5 without a name in the program, 6 without a name in no binary.
fn profile(stacks: &[&[u32]]) -> Profile {
    let location = |mapping, lines: &[usize]| Location {
        mapping: Some(mapping),
        address: LookupAddress(1),
        offset: None,
        lines: lines.iter().map(|&function| Line { function, line: 7 }).collect(),
    };
    let sample = |locations: &&[u32]| StackSample {
        locations: locations.to_vec(),
        values: [Estimate::exact(10.0); 4],
        ..StackSample::default()
    };
    Profile {
        mappings: vec![mapping(), Mapping { path: "/lib/libc.so.6".into(), ..mapping() }],
        functions: ["main", "acme::load()", "void std::f<int>()"]
            .map(|name| function(name, ""))
            .to_vec(),
        locations: vec![
            location(0, &[0]),
            location(0, &[1]),
            location(0, &[2]),
            location(0, &[2, 1]),
            location(1, &[]),
            location(0, &[]),
            Location { mapping: None, ..location(0, &[]) },
        ],
        samples: stacks.iter().map(sample).collect(),
        ..Profile::default()
    }
}

#[test]
fn library_allocations_count_for_callers() {
    let mut folded = profile(&[&[2, 1, 0, 4], &[4, 2, 1, 2, 0], &[3, 0], &[5, 6, 0]]);
    let before = folded.total(crate::SampleType::InuseSpace);
    assert!(OwnFrames::default().fold(&mut folded));
    let stacks: Vec<&[u32]> = folded.samples.iter().map(|sample| &*sample.locations).collect();
    assert_eq!(stacks, [&[1, 0][..], &[3, 0], &[5, 0]], "the first two are one now");
    let inlined: Vec<usize> = folded.locations[3].lines.iter().map(|line| line.function).collect();
    assert_eq!(inlined, [1], "only the program's own line is left");
    assert_eq!(folded.samples[0].values[0], Estimate::exact(20.0));
    assert_eq!(folded.total(crate::SampleType::InuseSpace), before);
}

#[test]
fn rules_that_match_nothing_are_named() {
    let rules = |texts: [&str; 3]| texts.map(|text| Pattern::new(text).unwrap()).to_vec();
    let own = OwnFrames::new(rules(["libc", "^acme", "boost"]), rules(["^acme", "^pol_", "libc"]));
    let missed: Vec<String> =
        own.unmatched(&profile(&[&[1, 0]])).iter().map(ToString::to_string).collect();
    assert_eq!(missed, ["--wrapper '^pol_'", "--wrapper 'libc'", "--library 'boost'"]);
}

#[test]
fn library_only_stack_stays_whole() {
    let mut folded = profile(&[&[4, 6, 2], &[], &[1, 0], &[6]]);
    OwnFrames::default().fold(&mut folded);
    let stacks: Vec<&[u32]> = folded.samples.iter().map(|sample| &*sample.locations).collect();
    assert_eq!(stacks, [&[4, 2][..], &[], &[1, 0], &[6]], "but for what has no name at all");
    assert_eq!(folded.locations[2].lines.len(), 1);
}

#[test]
fn profile_without_libraries_is_unchanged() {
    let mut own = profile(&[&[1, 0]]);
    own.locations.truncate(2);
    own.functions.truncate(2);
    let before = own.clone();
    assert!(!OwnFrames::default().fold(&mut own));
    assert_eq!(own.samples, before.samples);
}

#[test]
fn interpreter_allocations_count_for_functions() {
    let mut profile = Profile {
        functions: ["list_resize", "py::load:/srv/a.py", "main"]
            .map(|name| Function { system_name: name.into(), ..function(name, "") })
            .to_vec(),
        ..Profile::default()
    };
    let python = Mapping { path: "/usr/bin/python3.13".into(), ..mapping() };
    profile.mappings = vec![python];
    let location = |function: usize, mapping: Option<usize>| Location {
        mapping,
        address: LookupAddress(function as u64),
        offset: None,
        lines: vec![Line { function, line: 1 }],
    };
    let stub =
        Location { mapping: None, address: LookupAddress(9), lines: Vec::new(), offset: None };
    profile.locations = vec![location(0, Some(0)), location(1, None), location(2, Some(0)), stub];
    let sample = |locations: &[u32]| StackSample {
        locations: locations.to_vec(),
        values: [Estimate::exact(1.0); 4],
        ..StackSample::default()
    };
    profile.samples = vec![sample(&[0, 3, 1, 2]), sample(&[0, 3, 2])];
    assert!(OwnFrames::default().fold(&mut profile));
    let stacks: Vec<_> = profile.samples.iter().map(|sample| sample.locations.clone()).collect();
    assert_eq!(stacks, [vec![1], vec![0, 2]], "without a name the interpreter's frames stay");
}
