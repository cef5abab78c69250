//! C++ operators. Each has two possible ways: straight to the real operator if that only calls malloc or free, which count
//! already; through a counting fast path if the operator is the allocator's own. Those that nobody defines when the program starts are
//! hidden: they are not ours to answer.

use super::*;

/// One operator as `bind` sees it.
struct Operator {
    name: &'static CStr,
    entry: &'static Target,
    next: &'static Target,
    stub: unsafe extern "C" fn(),
    counted: unsafe extern "C" fn(),
}

const fn c_text(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!(),
    }
}

macro_rules! counted {
    (new) => {
        allocation_slow!(slow, "rdi", hooks::record);
        allocation_fast!(counted, "rdi");
    };
    (delete) => {
        deallocation_slow!(slow);
        deallocation_fast!(counted);
    };
}

macro_rules! operators {
    ($($kind:ident $module:ident $name:literal,)+) => {
        $(mod $module {
            use super::*;
            static ENTRY: Target = Target::new(stub);
            static NEXT: Target = Target::new(stub);
            pub static OPERATOR: Operator =
                Operator { name: c_text(concat!($name, "\0")), entry: &ENTRY, next: &NEXT, stub, counted };
            unresolved!(stub, ENTRY);
            counted!($kind);
            naked!(
                #[unsafe(export_name = $name)]
                hook,
                ["jmp qword ptr [rip + {entry}]"],
                entry = sym ENTRY,
            );
        })+
        static OPERATORS: &[&Operator] = &[$(&$module::OPERATOR),+];
    };
}

operators! {
    new new "_Znwm",
    new new_array "_Znam",
    new new_nothrow "_ZnwmRKSt9nothrow_t",
    new new_array_nothrow "_ZnamRKSt9nothrow_t",
    new new_aligned "_ZnwmSt11align_val_t",
    new new_array_aligned "_ZnamSt11align_val_t",
    new new_aligned_nothrow "_ZnwmSt11align_val_tRKSt9nothrow_t",
    new new_array_aligned_nothrow "_ZnamSt11align_val_tRKSt9nothrow_t",
    delete delete "_ZdlPv",
    delete delete_array "_ZdaPv",
    delete delete_nothrow "_ZdlPvRKSt9nothrow_t",
    delete delete_array_nothrow "_ZdaPvRKSt9nothrow_t",
    delete delete_sized "_ZdlPvm",
    delete delete_array_sized "_ZdaPvm",
    delete delete_aligned "_ZdlPvSt11align_val_t",
    delete delete_array_aligned "_ZdaPvSt11align_val_t",
    delete delete_sized_aligned "_ZdlPvmSt11align_val_t",
    delete delete_array_sized_aligned "_ZdaPvmSt11align_val_t",
    delete delete_aligned_nothrow "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    delete delete_array_aligned_nothrow "_ZdaPvSt11align_val_tRKSt9nothrow_t",
}

/// Points operators at the real ones. One that no loaded object has fails as if there were no memory: without us its caller would not
/// have been started.
pub fn bind(find: impl Fn(&CStr) -> Option<Found>) {
    for operator in OPERATORS {
        if operator.entry.is_bound_beyond(operator.stub) {
            continue;
        }
        // Hazard, never seen: a program refers weakly to an operator that no object defines at its start. It finds ours instead of null. If it
        // calls it, operator new returns null and operator delete does nothing.
        let Some(real) = find(operator.name) else {
            operator.entry.set(missing as *const () as usize);
            continue;
        };
        operator.next.set(real.address);
        let name = operator.name.to_bytes();
        let is_aligned_new =
            name.starts_with(b"_Zn") && name.windows(5).any(|part| part == b"align");
        let counts_here = real.is_of_an_allocator && !(is_aligned_new && real.is_of_jemalloc);
        let counted = operator.counted as *const () as usize;
        operator.entry.set(if counts_here { counted } else { real.address });
    }
}

/// The names of those that no loaded object had.
pub fn missing_names() -> impl Iterator<Item = &'static CStr> + Clone {
    let operators = OPERATORS.iter();
    operators
        .filter(|operator| !operator.entry.is_bound_beyond(missing))
        .map(|operator| operator.name)
}

/// The operator of that name and the real one, if ours counts its calls.
pub fn counting(is_it: impl Fn(&CStr) -> bool) -> Option<(&'static CStr, usize)> {
    let operator = OPERATORS.iter().find(|operator| is_it(operator.name))?;
    let counts = operator.entry.get() == operator.counted as *const () as usize;
    counts.then(|| (operator.name, operator.next.get()))
}
