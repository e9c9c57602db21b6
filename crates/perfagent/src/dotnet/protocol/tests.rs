//! Requests byte by byte, and answers of runtimes, of hostile programs and of none.

use super::*;

/// As a runtime sends it.
fn answer(id: u8, payload: &[u8]) -> Vec<u8> {
    let size = (HEADER + payload.len()) as u16;
    [&MAGIC[..], &size.to_le_bytes(), &[SERVER, id, 0, 0], payload].concat()
}

/// Asks somebody who does `body` with his end after the request.
fn ask(body: impl FnOnce(&mut UnixStream) + Send + 'static) -> (Vec<u8>, Result<(), String>) {
    ask_for(testkit::PATIENCE, body)
}

/// [`ask`] with another limit for the answer.
fn ask_for(
    patience: Duration,
    body: impl FnOnce(&mut UnixStream) + Send + 'static,
) -> (Vec<u8>, Result<(), String>) {
    let (mut near, mut far) = UnixStream::pair().unwrap();
    let other = std::thread::spawn(move || {
        let mut asked = vec![0; ANSWER];
        far.read_exact(&mut asked).unwrap();
        body(&mut far);
        asked
    });
    send(&mut near, Command::EnablePerfMap).unwrap();
    let told = receive(&mut near, Instant::now() + patience, patience);
    drop(near);
    (other.join().unwrap(), told.map_err(|error| error.to_string()))
}

fn judged(bytes: &[u8]) -> Result<(), String> {
    judge(bytes).map_err(|error| error.to_string())
}

#[test]
fn requests_have_the_bytes_of_the_protocol() {
    assert_eq!(Command::EnablePerfMap.request(), b"DOTNET_IPC_V1\0\x18\0\x04\x05\0\0\x03\0\0\0");
    assert_eq!(Command::DisablePerfMap.request(), b"DOTNET_IPC_V1\0\x14\0\x04\x06\0\0");
}

#[test]
fn answers_are_judged_by_their_kind_and_number() {
    assert_eq!(judged(&answer(OK, &[0; 4])), Ok(()));
    assert_eq!(judged(&answer(OK, &[])), Ok(()));
    assert!(judged(&answer(ERROR, &UNKNOWN_COMMAND.to_le_bytes())).unwrap_err().contains(".NET 8"));
    assert!(judged(&answer(ERROR, &NOT_YET_AVAILABLE.to_le_bytes())).unwrap_err().contains("started"));
    let refused = judged(&answer(ERROR, &0x8007_0057_u32.to_le_bytes())).unwrap_err();
    assert_eq!(refused, "it answered with error 0x80070057");
    assert_eq!(judged(&answer(OK, &[1, 0, 0, 0])).unwrap_err(), "it answered with error 0x00000001");
}

#[test]
fn what_is_no_answer_is_told_as_such() {
    let nonsense = |change: fn(&mut Vec<u8>)| {
        let mut bytes = answer(OK, &[0; 4]);
        change(&mut bytes);
        let told = judged(&bytes).unwrap_err();
        assert!(told.contains("not that of a .NET runtime"), "{told}");
    };
    nonsense(|bytes| bytes[0] = b'd');
    nonsense(|bytes| bytes[14] = 19);
    nonsense(|bytes| bytes[16] = PROCESS);
    nonsense(|bytes| bytes[17] = 7);
    assert!(judged(&answer(ERROR, &[])).is_err(), "an error without its number");
    for end in 0..HEADER {
        assert!(judged(&answer(OK, &[0; 4])[..end]).is_err(), "{end} bytes");
    }
}

#[test]
fn an_answer_may_come_in_pieces_and_announce_more_than_is_read() {
    let (asked, told) = ask(|far| {
        for byte in answer(OK, &[0; 4]) {
            far.write_all(&[byte]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert_eq!((asked, told), (Command::EnablePerfMap.request(), Ok(())));
    let (_, told) = ask(|far| far.write_all(&answer(OK, &[0; 8])).unwrap());
    assert_eq!(told, Ok(()));
}

#[test]
fn an_answer_that_does_not_end_or_come_is_not_waited_for() {
    let endless = answer(OK, &vec![0; 60_000]);
    let (_, told) = ask(move |far| while far.write_all(&endless).is_ok() {});
    assert_eq!(told, Ok(()));
    let (_, told) = ask(|far| far.write_all(&answer(OK, &[0; 4])[..22]).unwrap());
    assert!(told.unwrap_err().contains("ended the connection"));
    // It reads until the connection is given up.
    let (_, told) = ask_for(Duration::from_secs(1), |far| drop(far.read(&mut [0])));
    assert!(told.unwrap_err().contains("within 1 s"));
}
