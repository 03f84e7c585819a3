import { dlopen, FFIType, ptr } from 'bun:ffi'
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Binaries, Ending, Kept, Place, Reach, ServerSystem } from './server-system.ts'

const loopback = '127.0.0.1'
/** STATUS_DLL_NOT_FOUND. Of what Windows does not have by itself, PostgreSQL needs Microsoft's libraries of C alone. */
const libraryAbsent = 0xc000_0135
/** How long `pg_ctl` waits for the server that it starts, s. */
const startSeconds = 60
/** How long PostgreSQL may be busy with a signal before another, ms, and how often we look. */
const pipeWaitMs = 20
const pipeLooks = 3
const controlWaitMs = 5_000

/** `postgres.exe` refuses to run with the rights of an administrator; `pg_ctl` gives them up before it starts it. */
const control = ({ postgres }: Binaries) => join(postgres, '..', 'pg_ctl.exe')

function env(): Readonly<Record<string, string>> {
  const root = process.env.SystemRoot ?? 'C:\\Windows'
  const system = join(root, 'System32')
  return { SystemRoot: root, ComSpec: join(system, 'cmd.exe'), PATH: system, LC_ALL: 'C', TZ: 'UTC' }
}

function isFree(port: number): boolean {
  try {
    Bun.listen({ hostname: loopback, port, exclusive: true, socket: { data: () => {} } }).stop(true)
    return true
  } catch {
    return false
  }
}

function anyPort(): number {
  const listener = Bun.listen({ hostname: loopback, port: 0, socket: { data: () => {} } })
  listener.stop(true)
  return listener.port
}

const portFile = (root: string) => join(root, 'postgres-port')

function choosePort(root: string): Reach {
  const port = anyPort()
  writeFileSync(portFile(root), `${port}\n`)
  return { port }
}

function keptPort(root: string): Reach {
  const port = existsSync(portFile(root)) ? Number(readFileSync(portFile(root), 'utf8')) : 0
  return port > 0 ? { port } : choosePort(root)
}

const symbols = { WaitNamedPipeW: { args: [FFIType.ptr, FFIType.u32], returns: FFIType.i32 } } as const
let kernel: ReturnType<typeof dlopen<typeof symbols>>['symbols'] | null = null

/**
 * Each process of PostgreSQL has a pipe of this name, by which it is sent its signals, and looks for it itself before it takes the place of a
 * server: https://github.com/postgres/postgres/blob/REL_18_STABLE/src/port/kill.c. Without a pipe the answer comes at once.
 */
function hasSignalPipe(pid: number): boolean {
  const name = Buffer.from(`\\\\.\\pipe\\pgsignal_${pid}\0`, 'utf16le')
  kernel ??= dlopen('kernel32.dll', symbols).symbols
  for (let looks = 0; looks < pipeLooks; looks++) {
    if (kernel.WaitNamedPipeW(ptr(name), pipeWaitMs) !== 0) return true
  }
  return false
}

/** `pg_ctl` has a shell write what the server says, and the shell needs the log for itself. */
function launch(place: Place, binaries: Binaries, args: readonly string[]) {
  const words = ['start', '-s', '-w', '-t', String(startSeconds), '-D', place.data, '-l', place.logFile]
  return spawn(control(binaries), [...words, '-o', args.join(' ')], {
    cwd: place.home,
    env: env(),
    detached: true,
    windowsHide: true,
    stdio: 'ignore',
  })
}

function end(pid: number, how: Ending, binaries: () => Binaries): void {
  const signal = how === 'fast' ? 'INT' : 'QUIT'
  const options = { env: env(), stdio: 'ignore', windowsHide: true, timeout: controlWaitMs } as const
  spawnSync(control(binaries()), ['kill', signal, String(pid)], options)
}

/** `ping` waits about a second between two of its packets; `timeout` would need a terminal. */
const keeperScript = `@echo off
set /p nothing=
set /a packets=%GRACE%+1
ping -n %packets% 127.0.0.1 >nul
set now=
set /p now=<"%WORD_FILE%"
if not "%now%"=="%WORD%" exit /b 0
"%CONTROL%" stop -s -D "%DATA%" -m fast -t %STOP% || "%CONTROL%" stop -s -D "%DATA%" -m immediate
`
const scriptName = 'postgres-keeper.cmd'

function keeper({ place, wordFile, word, graceSeconds, stopSeconds }: Kept, binaries: () => Binaries) {
  writeFileSync(join(place.root, scriptName), keeperScript.replaceAll('\n', '\r\n'))
  const paths = { DATA: place.data, WORD_FILE: wordFile, CONTROL: control(binaries()) }
  const times = { GRACE: String(graceSeconds), STOP: String(stopSeconds) }
  const common = env()
  // By its name alone in its folder: `cmd` takes the quotes of a path for its own.
  const args = ['/d', '/c', scriptName]
  return {
    command: common.ComSpec ?? 'cmd.exe',
    args,
    cwd: place.root,
    env: { ...common, ...paths, ...times, WORD: word },
  }
}

/**
 * A port of the loopback address, since the driver opens no Unix socket there. Other users of the computer reach that port, so each
 * connection needs the password; a program that takes the port while the server is away does not learn it (SCRAM).
 */
export const windowsServer: ServerSystem = {
  env,
  reach: keptPort,
  settle: ({ reach, root }) => ('port' in reach && !isFree(reach.port) ? choosePort(root) : reach),
  settings: (reach) =>
    'port' in reach ? { listen_addresses: loopback, port: String(reach.port), unix_socket_directories: '' } : {},
  isServer: hasSignalPipe,
  launch,
  end,
  meaning: (exitCode) =>
    exitCode === libraryAbsent ? 'Microsoft’s Visual C++ Redistributable (x64) is not on this computer' : null,
  keeper,
}
