import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { freePort } from '../support/gateways/free-port.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { openFolder } from '../support/run/open-folder.ts'
import { prepareFolder } from '../support/run/prepared-folder.ts'

const root = resolve(import.meta.dir, '../..')
const scratch = openFolder('penstock-in-use-')
const folders: string[] = []
const running: Bun.Subprocess[] = []
afterAll(async () => {
  for (const program of running) program.kill('SIGTERM')
  await Promise.all(running.map(({ exited }) => exited))
  for (const folder of folders) rmSync(realpathSync(join(folder, 'postgres')), { recursive: true, force: true })
  rmSync(scratch, { recursive: true, force: true })
})

const newFolder = () => mkdtempSync(join(scratch, 'data-'))
const begin = (program: string, args: readonly string[], env: Readonly<Record<string, string>>) =>
  Bun.spawn([process.execPath, join(root, program), ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH ?? '', HOME: scratch, SVC_DISCOVER: 'false', SVC_WARM_UP: 'false', ...env },
  })

async function refusal(program: string, args: readonly string[], env: Readonly<Record<string, string>>) {
  const child = begin(program, args, env)
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  expect(await child.exited).not.toBe(0)
  return out + err
}

test.each(['1', '2'])(
  '§25: a gateway of %s processes is named where its port or its folder is wanted, by its pid and its folder',
  async (count) => {
    const dataDir = await prepareFolder(newFolder())
    folders.push(dataDir)
    const port = String(await freePort())
    const first = begin('src/main.ts', [], { SVC_DATA_DIR: dataDir, SVC_PORT: port, SVC_PROCESSES: count })
    running.push(first)
    await firstMatch(first.stdout, /is ready\n/)
    const names = `process ${first.pid}, data folder ${dataDir}. Stop it, or set SVC_PORT to another port.`
    const other = { SVC_DATA_DIR: newFolder(), SVC_PORT: port }
    expect(await refusal('src/main.ts', [], other)).toContain(`Port ${port} is in use by another gateway: ${names}`)
    const own = { SVC_DATA_DIR: dataDir, SVC_PORT: String(await freePort()) }
    const says = `Another gateway (process ${first.pid}) uses the data folder ${dataDir}. Stop it, or set SVC_DATA_DIR`
    expect(await refusal('src/main.ts', [], own)).toContain(says)
    first.kill('SIGKILL')
    await first.exited
    // The lock has ended with its process, and PostgreSQL is taken over.
    const next = begin('src/main.ts', [], { ...own, SVC_PROCESSES: '1' })
    running.push(next)
    await firstMatch(next.stdout, /is ready\n/)
  },
)

test('§25: of two starts at once on one folder one gets it, and the other names it', async () => {
  const dataDir = newFolder()
  folders.push(dataDir)
  const starts = await Promise.all(
    Array.from({ length: 2 }, async () => {
      const child = begin('src/main.ts', [], { SVC_DATA_DIR: dataDir, SVC_PORT: '0' })
      running.push(child)
      const ready = firstMatch(child.stdout, /is ready\n/).then(() => 'ready')
      const failed = new Response(child.stderr).text()
      return { child, end: await Promise.race([ready.catch(() => failed), child.exited.then(() => failed)]) }
    }),
  )
  const winner = starts.find(({ end }) => end === 'ready')
  const loser = starts.find(({ end }) => end !== 'ready')
  expect(loser?.end).toContain('Another gateway')
  expect(loser?.end).toContain(dataDir)
  expect(winner?.child.exitCode).toBeNull()
})

test('§22: an agent is named where its folder or its port is wanted', async () => {
  const dataDir = newFolder()
  const listen = `127.0.0.1:${await freePort()}`
  const args = (folder: string, at: string) => ['node', '--data-dir', folder, '--listen', at, '--no-discover']
  const first = begin('src/cli/main.ts', args(dataDir, listen), {})
  running.push(first)
  await firstMatch(first.stdout, /Local API/)
  const folderWanted = await refusal('src/cli/main.ts', args(dataDir, '127.0.0.1:0'), {})
  expect(folderWanted).toContain(`Another agent (process ${first.pid}) uses ${dataDir}`)
  const portWanted = await refusal('src/cli/main.ts', args(newFolder(), listen), {})
  expect(portWanted).toContain(`is in use by a node agent: process ${first.pid}, folder ${dataDir}. Stop it`)
})
