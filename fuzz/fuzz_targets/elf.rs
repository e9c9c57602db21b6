//! Any bytes as ELF file: reading its headers, sections, notes and Go table neither panics nor hangs.
#![no_main]

use elf::gopclntab;
use elf::{Headers, Layout};

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let read_at = |buffer: &mut [u8], at: u64| {
        let rest = usize::try_from(at).ok().and_then(|at| file.get(at..)).unwrap_or(&[]);
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    };
    if let Some(headers) = Headers::read(&read_at).expect("memory is always readable") {
        assert!(headers.segments.iter().all(|segment| segment.start <= segment.limit));
    }
    let Some(layout) = Layout::parse(file) else { return };
    let _ = layout.build_id(file);
    for section in layout.sections.iter().take(100) {
        let bytes = section.decompressed(file, 1 << 20);
        assert!(bytes.is_none_or(|bytes| bytes.len() <= file.len().max(1 << 20)));
        let _ = layout.bytes_at(file, section.address);
    }
    let Some(table) = gopclntab::find(&layout, file, &|| {}) else { return };
    let modules = gopclntab::modules(&layout, file, &table, &|| {});
    for function in (0..table.function_count.min(1000)).filter_map(|number| table.function(number)) {
        let _ = (table.name(&function, 256), table.function_at(function.start));
        let calls = modules.iter().filter_map(|module| module.data).find_map(|data| {
            layout.bytes_at(file, data.checked_add(table.inlined_calls(&function)?.into())?)
        });
        for step in table.stack_sizes(&function).into_iter().flatten().map_while(Result::ok).take(100) {
            assert!(step.from < step.to);
            let _ = table.position(&function, step.from);
            let number = table.inlined_call_number(&function, step.from);
            let _ = calls.zip(number).and_then(|(calls, number)| table.inlined_call(calls, number));
        }
    }
});
