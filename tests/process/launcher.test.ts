import { afterAll, expect, test } from 'bun:test'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { freePort } from '../support/gateways/free-port.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { isAlive, isFree, npmStart, processesOf } from '../support/gateways/npm-start.ts'
import { lasts } from '../support/run/lasts.ts'
import { npmTest } from '../support/run/npm-test.ts'
import { openFolder } from '../support/run/open-folder.ts'
import { prepareFolder } from '../support/run/prepared-folder.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const root = resolve(import.meta.dir, '../..')
const scratch = openFolder('penstock-launchers-')
const folders: string[] = []
afterAll(() => {
  for (const folder of folders) {
    const home = join(folder, 'postgres')
    if (existsSync(home)) rmSync(realpathSync(home), { recursive: true, force: true })
  }
  rmSync(scratch, { recursive: true, force: true })
})

function newFolder(): string {
  const folder = mkdtempSync(join(scratch, 'data-'))
  folders.push(folder)
  return folder
}

interface Row {
  readonly pid: number
  readonly parent: number
  readonly command: string
}

function processes(): readonly Row[] {
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid=,args='], { encoding: 'utf8' })
  return stdout.split('\n').flatMap((line) => {
    const [, pid, parent, command = ''] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? []
    return pid === undefined ? [] : [{ pid: Number(pid), parent: Number(parent), command }]
  })
}

/** Everything that this process has started, and what that has started. */
function descendants(pid: number): readonly Row[] {
  const all = processes()
  const below = (parent: number): Row[] =>
    all.filter((row) => row.parent === parent).flatMap((row) => [row, ...below(row.pid)])
  return below(pid)
}

const launcherOf = (rows: readonly Row[]): number =>
  rows.find(({ command }) => command.includes('scripts/bun.mjs') && !command.startsWith('sh '))?.pid ?? 0

/** The gateway and its PostgreSQL have ended, in order: their port and their folder are free. */
async function expectAllEnded(rows: readonly Row[], dataDir: string, port: number): Promise<void> {
  await waitUntil('the end of all', () => rows.every(({ pid }) => !isAlive(pid)))
  await waitUntil('the end of PostgreSQL', () => processesOf(dataDir).postmaster === null, 60_000)
  expect(existsSync(join(dataDir, 'postgres/data/postmaster.pid'))).toBe(false)
  expect(await isFree(port)).toBe(true)
}

const victims = {
  npm: (npm: number) => npm,
  'the launcher': (npm: number) => launcherOf(descendants(npm)),
} as const

npmTest.each([
  ['npm', '1'],
  ['the launcher', '1'],
  ['npm', '2'],
  ['the launcher', '2'],
] as const)('§25: kill -9 of %s ends a gateway of %s processes, its database too', async (victim, count) => {
  const dataDir = await prepareFolder(newFolder())
  const port = await freePort()
  const env = {
    SVC_DATA_DIR: dataDir,
    SVC_PORT: String(port),
    SVC_DISCOVER: 'false',
    SVC_WARM_UP: 'false',
    SVC_PROCESSES: count,
  }
  const started = npmStart(env)
  await started.ready()
  const rows = descendants(started.pid)
  expect(rows.length).toBeGreaterThanOrEqual(count === '1' ? 2 : 4)
  process.kill(victims[victim](started.pid), 'SIGKILL')
  await expectAllEnded(rows, dataDir, port)
})

/** Says when it is up, when it was asked to end, and ends when it is told a second time. */
const slow = `
let asked = 0
process.on('SIGTERM', () => {
  console.log('asked ' + ++asked)
  if (asked === 2) process.exit(3)
})
setInterval(() => {}, 1_000)
`
const following = (source: string) =>
  `import { endWithLauncher } from '${join(root, 'src/host/launcher.ts')}'\nendWithLauncher()\n${source}\nconsole.log('up ' + process.pid)`

function script(name: string, source: string): string {
  const file = join(scratch, name)
  writeFileSync(file, following(source))
  return file
}

test('§25: a launcher whose own parent ends goes on, as behind a shell, nohup or a supervisor', async () => {
  const file = script('goes-on.ts', 'setInterval(() => {}, 1_000)')
  const shell = Bun.spawn(['sh', '-c', `node scripts/bun.mjs ${file} & echo launched $!; wait_for=1; sleep 2`], {
    cwd: root,
    stdout: 'pipe',
  })
  const [, program, launcher] = await firstMatch(shell.stdout, /(?=[\s\S]*up (\d+))(?=[\s\S]*launched (\d+))/)
  await shell.exited
  const parentOf = (pid: number) => processes().find((row) => row.pid === pid)?.parent
  await waitUntil('another parent of the launcher', () => parentOf(Number(launcher)) !== shell.pid)
  const looks = Array.from({ length: 3 }, async (_, at) => {
    await lasts((at + 1) * 600)
    return isAlive(Number(program))
  })
  expect(await Promise.all(looks)).toEqual([true, true, true])
  process.kill(Number(launcher), 'SIGTERM')
  await waitUntil('the end', () => !isAlive(Number(program)) && !isAlive(Number(launcher)))
})

test('§25: a program that another one has started does not take its launcher for its own', async () => {
  const inner = script('inner.ts', 'setTimeout(() => process.exit(5), 1_500)')
  const outer = join(scratch, 'outer.ts')
  writeFileSync(outer, `process.exit(await Bun.spawn([process.execPath, '${inner}'], { env: process.env }).exited)`)
  const run = Bun.spawn(['node', 'scripts/bun.mjs', outer], { cwd: root })
  expect(await run.exited).toBe(5)
})

test('§25: SIGTERM to the launcher reaches the program once, also when npm ends meanwhile', async () => {
  const file = script('slow.ts', slow)
  const env = { ...process.env, npm_lifecycle_script: `exec node scripts/bun.mjs ${file}` }
  const log = join(scratch, 'slow.log')
  const shell = Bun.spawn(['sh', '-c', `node scripts/bun.mjs ${file} > ${log} & echo launched $!; read -r _`], {
    cwd: root,
    env,
    stdin: 'pipe',
    stdout: 'pipe',
  })
  const [, launcher] = await firstMatch(shell.stdout, /launched (\d+)/)
  const said = () => (existsSync(log) ? readFileSync(log, 'utf8') : '')
  await waitUntil('the program', () => said().includes('up '))
  process.kill(Number(launcher), 'SIGTERM')
  await waitUntil('the signal', () => said().includes('asked 1'))
  shell.kill('SIGKILL')
  await shell.exited
  await lasts(1_500)
  expect(said()).not.toContain('asked 2')
  process.kill(Number(launcher), 'SIGTERM')
  await waitUntil('the end', () => !isAlive(Number(launcher)))
})

test('§22: kill -9 of the launcher of an agent ends the agent', async () => {
  const dataDir = mkdtempSync(join(scratch, 'agent-'))
  const launcher = Bun.spawn(
    [join(root, 'penstock'), 'node', '--data-dir', dataDir, '--listen', '127.0.0.1:0', '--no-discover'],
    { env: { PATH: process.env.PATH ?? '', HOME: scratch }, stdio: ['ignore', 'pipe', 'ignore'] },
  )
  await firstMatch(launcher.stdout, /Local API/)
  const rows = descendants(launcher.pid)
  expect(rows.length).toBeGreaterThan(0)
  launcher.kill('SIGKILL')
  await waitUntil('the end of the agent', () => rows.every(({ pid }) => !isAlive(pid)))
})
