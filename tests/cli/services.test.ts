import { afterAll, afterEach, expect, test } from 'bun:test'
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bundleAgent } from '../../src/actors/agents/agent-bundle.ts'
import { startLoneAgent } from '../support/nodes/lone-agent.ts'
import { systemTools } from '../support/nodes/system-tools.ts'
import { scoped } from '../support/run/fixture.ts'
import { commandLine, root } from './command-line.ts'

const cli = commandLine()
const tools = systemTools(cli.home)
const env = { ...tools.env }
afterAll(() => cli.close())
const units = join(cli.home, '.config/systemd/user')
const variables = (name: string) => join(cli.home, '.config/penstock', `${name}.env`)
afterEach(() => {
  tools.works()
  tools.gone()
  tools.forget()
  for (const path of [units, variables('penstock'), variables('penstock-node')])
    rmSync(path, { recursive: true, force: true })
})

test('§39: service install says first what it would write and run, and then does that', async () => {
  const planned = await cli.run(['service', 'install', '--dry-run'], { env })
  expect([planned.code, planned.err, tools.calls()]).toEqual([0, '', []])
  const unit = join(units, 'penstock.service')
  expect(planned.out).toStartWith(`Would write ${unit}\n\n`)
  expect(planned.out).toContain('\n  systemctl --user enable penstock\n')
  expect(planned.out).toContain('Nothing was changed.')
  expect(existsSync(unit)).toBe(false)
  const done = await cli.run(['service', 'install'], { env })
  expect([done.code, done.err]).toEqual([0, ''])
  const text = readFileSync(unit, 'utf8')
  expect(planned.out).toContain(text)
  expect(text).toContain(`\nExecStart=${root}/penstock serve\n`)
  expect(text).toContain(`\nEnvironment=SVC_DATA_DIR=${join(cli.home, 'data')}\n`)
  expect(text).toContain(`\nEnvironmentFile=-${variables('penstock')}\n`)
  expect(done.out).toMatch(/running, process 4711\n/)
  expect(done.out).toContain('journalctl --user -u penstock\n')
  const shown = await cli.run(['service', 'status'], { env })
  expect([shown.code, shown.out]).toEqual([0, expect.stringContaining('running, process 4711 (of this user)')])
  const removed = await cli.run(['service', 'uninstall'], { env })
  expect([removed.code, removed.out, existsSync(unit)]).toEqual([
    0,
    expect.stringContaining('is removed. The data'),
    false,
  ])
  const gone = await cli.run(['service', 'status'], { env })
  expect([gone.code, gone.out]).toEqual([1, expect.stringContaining('none')])
})

test('§39: no secret comes into a unit, and settings of the shell that the service lacks are named', async () => {
  const secret = 'postgres://penstock:a-password@127.0.0.1/x'
  const plan = await cli.run(['service', 'install', '--dry-run', '--json'], {
    env: { ...env, DATABASE_URL: secret, SVC_HOST: '0.0.0.0' },
  })
  const { text, notes } = JSON.parse(plan.out) as { text: string; notes: readonly string[] }
  expect(plan.out).not.toContain('a-password')
  expect(text).not.toContain('SVC_HOST')
  expect(notes).toEqual([
    `The service does not have these settings of your shell: SVC_HOST, DATABASE_URL. Put them into ${variables('penstock')} and restart the service.`,
  ])
})

test('§39: faults are told before anything is written', async () => {
  const nothing = async (args: readonly string[], says: string, more: Readonly<Record<string, string>> = {}) => {
    const { code, err } = await cli.run(args, { env: { ...env, ...more } })
    expect({ args, code: code > 0, err }).toEqual({ args, code: true, err: expect.stringContaining(says) })
    expect([existsSync(units), tools.calls()]).toEqual([false, []])
  }
  writeFileSync(variables('penstock'), 'SVC_PORT=many\n')
  await nothing(['service', 'install'], 'SVC_PORT')
  writeFileSync(variables('penstock'), 'export SVC_PORT=1\n')
  await nothing(['service', 'install'], 'line 1: each line must be NAME=value')
  rmSync(variables('penstock'))
  await nothing(['service', 'install', '--system', '--data-dir', '/srv/x'], '--data-dir')
  await nothing(['node', 'install', '--token', 'svc_enroll_x'], '--token')
  await nothing(['node', 'install', '--runtime', 'ftp://127.0.0.1'], '--runtime')
  await nothing(['node', 'install', '--pull-from', 'https://me:word@example.com/x'], '--pull-from')
  await nothing(['node', 'install', '--listen', 'somewhere'], '--listen')
  await nothing(['node', 'install', '--run-as', 'ann'], '--run-as needs --system')
  await nothing(['node', 'install', '--runtime-key', 'http://127.0.0.1:8000=ABSENT_KEY'], 'ABSENT_KEY')
  await nothing(['node', 'install', '--kv-events', 'http://127.0.0.1:8000=0'], '--kv-events must be')
  await nothing(['node', 'install', '--kv-events', '8000=5557'], '--kv-events must be')
  await nothing(['service', 'install'], 'has no systemctl', { PATH: '/nowhere' })
})

test('§39: node install takes the options of the agent, and its keys from a private file', async () => {
  writeFileSync(variables('penstock-node'), 'MY_KEY="sk-secret"\n')
  chmodSync(variables('penstock-node'), 0o644)
  const dir = join(cli.home, 'agent of mine')
  const done = await cli.run(
    [
      'node',
      'install',
      '--data-dir',
      dir,
      '--runtime',
      'http://127.0.0.1:8000',
      '--runtime-key',
      'http://127.0.0.1:8000=MY_KEY',
      '--no-discover',
    ],
    { env },
  )
  expect([done.code, done.err]).toEqual([0, ''])
  const text = readFileSync(join(units, 'penstock-node.service'), 'utf8')
  expect(text).toContain(
    `\nExecStart=${root}/penstock node "--data-dir=${dir}" --runtime=http://127.0.0.1:8000 --runtime-key=http://127.0.0.1:8000=MY_KEY --no-discover\n`,
  )
  expect(text + done.out).not.toContain('sk-secret')
  expect(done.out).toContain('chmod 600')
  expect(done.out).toContain('This node belongs to no gateway yet')
})

test('§39: the agent in one file installs itself, by the Bun that runs it', async () => {
  const agent = join(cli.home, 'agent.mjs')
  writeFileSync(agent, await bundleAgent())
  const child = Bun.spawn([process.execPath, agent, 'install', '--dry-run', '--json'], {
    env: { ...env, XDG_DATA_HOME: cli.home },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const { text } = JSON.parse(await new Response(child.stdout).text()) as { text: string }
  expect(text).toContain(`\nExecStart=${process.execPath} ${agent} --data-dir=${join(cli.home, 'penstock/node')}\n`)
})

test('§39: an agent that somebody started keeps its folder, and a service is not put beside it', async () => {
  await using agent = await scoped(startLoneAgent())
  const refused = await cli.run(['node', 'install', '--data-dir', agent.dataDir], { env })
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('uses the folder already')])
  expect(existsSync(units)).toBe(false)
  const shown = await cli.json<{ service: unknown }>('node', 'status', '--data-dir', agent.dataDir)
  expect(shown.service).toHaveProperty('state')
})
