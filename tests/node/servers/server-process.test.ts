import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { markedProcesses } from '../../../src/node/servers/marked-processes.ts'
import { outputBytesMax, type ServerCommand, ServerProcess } from '../../../src/node/servers/server-process.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

let starts = 0
const begin = (script: string, more: Partial<ServerCommand> = {}) => {
  const mark = `test${process.pid}.${starts++}.`
  const server = new ServerProcess({ command: ['/bin/sh', '-c', script], env: {}, cwd: '/', mark, ...more })
  return { server, mark }
}
const statusOf = (pid: number) => {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return ''
  }
}
const saidReady = ({ text }: ServerProcess) => text.includes('ready')

test('§30: a command runs with its own environment and folder, and no shell reads its arguments', async () => {
  const mark = `test${process.pid}.args.`
  const server = new ServerProcess({
    command: ['/bin/sh', '-c', 'pwd; echo "$NAME"; printf "%s\\n" "$1"', 'sh', '$(id); `id`'],
    env: { NAME: 'a b' },
    cwd: '/usr',
    mark,
  })
  await server.exited
  expect(server.text.split('\n').slice(0, 3)).toEqual(['/usr', 'a b', '$(id); `id`'])
})

test('§30: a command inherits what finds programs and graphics cards, and nothing else of the agent', async () => {
  const own = { SVC_GATEWAY_KEY: 'a-key-of-the-agent', OPENAI_API_KEY: 'another-key', CUDA_VISIBLE_DEVICES: '0,1' }
  const before = { ...process.env }
  Object.assign(process.env, own, { HIP_VISIBLE_DEVICES: '2', ROCR_VISIBLE_DEVICES: '3', GGML_VK_VISIBLE_DEVICES: '4' })
  Object.assign(process.env, { LANG: 'C.UTF-8', TMPDIR: '/tmp', XCUDA_A: 'no', LC_ALL: 'C' })
  const mark = `test${process.pid}.env.`
  const server = new ServerProcess({
    command: ['/usr/bin/env'],
    env: { PORT: '1', GGML_VK_VISIBLE_DEVICES: '5', HF_TOKEN: 'of-models-json' },
    cwd: '/',
    mark,
  })
  await server.exited
  for (const name of Object.keys(process.env)) delete process.env[name]
  Object.assign(process.env, before)
  const seen = Object.fromEntries(
    server.text
      .split('\n')
      .filter((line) => line.includes('=') && !line.startsWith('[agent]'))
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  )
  const home = process.env.HOME === undefined ? {} : { HOME: process.env.HOME }
  expect(seen).toEqual({
    ...home,
    PATH: process.env.PATH ?? '',
    LANG: 'C.UTF-8',
    TMPDIR: '/tmp',
    CUDA_VISIBLE_DEVICES: '0,1',
    HIP_VISIBLE_DEVICES: '2',
    ROCR_VISIBLE_DEVICES: '3',
    GGML_VK_VISIBLE_DEVICES: '5',
    HF_TOKEN: 'of-models-json',
    PORT: '1',
    SPT_NOENV: '1',
    PENSTOCK_MODEL_SERVER: mark,
  })
})

test('§30: the end of its output is kept, at most 64 KiB', async () => {
  const { server } = begin('head -c 300000 /dev/zero | tr "\\0" x; echo; echo the last line')
  await server.exited
  expect(server.text.length).toBeLessThanOrEqual(outputBytesMax)
  expect(server.text).toContain('the last line\n')
  expect(server.text).toContain('It ended with exit code 0.')
})

test('§30: a command that does not exist says so', async () => {
  for (const wrong of [{ command: ['/does/not/exist'] }, { cwd: '/does/not/exist' }]) {
    const { server } = begin('echo', wrong)
    await server.exited
    expect(server.text).toContain('It could not be started (ENOENT).')
  }
})

test('§30: asked to end, the whole group ends', async () => {
  const { server, mark } = begin('sleep 600 & sleep 601 & echo ready; wait')
  await waitUntil('its children run', () => saidReady(server) && markedProcesses(mark).length === 3)
  server.terminate()
  await server.exited
  expect(markedProcesses(mark)).toEqual([])
})

test('§30: a command that ignores the wish to end is killed, and with it a child that has left the group', async () => {
  const { server, mark } = begin(
    'trap "" TERM; setsid sh -c "trap \\"\\" TERM; sleep 600; sleep 600" & echo ready; while :; do sleep 1; done',
  )
  await waitUntil('the child has a session of its own', () => saidReady(server) && markedProcesses(mark).length >= 3)
  server.terminate()
  expect(markedProcesses(mark).length).toBeGreaterThan(0)
  server.kill()
  await server.exited
  expect(markedProcesses(mark)).toEqual([])
})

test('§30: a child that has lost its mark ends with the group', async () => {
  const { server } = begin('env -i sleep 600 & echo ready $$ $!; wait')
  await waitUntil('it runs', () => saidReady(server))
  const [leader = 0, child = 0] = (/ready (\d+) (\d+)/.exec(server.text) ?? []).slice(1).map(Number)
  await waitUntil('the child has no mark', () => readFileSync(`/proc/${child}/environ`, 'utf8') === '')
  process.kill(leader, 'SIGKILL')
  await server.exited
  // Whoever inherits it may take a while to take note of its end.
  await waitUntil('the child has ended', () => /^State:\s+[^Z]/m.exec(statusOf(child)) === null)
})

test('§30: the title that a Python server gives itself does not cost it its mark', async () => {
  const { server } = begin('echo "SPT_NOENV=$SPT_NOENV"')
  await server.exited
  expect(server.text).toContain('SPT_NOENV=1\n')
})

test('§30: when its first process is killed, no other is left', async () => {
  const { server, mark } = begin('setsid sleep 600 & echo ready $$; wait')
  await waitUntil('it runs', () => saidReady(server) && markedProcesses(mark).length === 2)
  process.kill(Number(/ready (\d+)/.exec(server.text)?.[1]), 'SIGKILL')
  await server.exited
  expect(server.text).toContain('It was ended by SIGKILL.')
  expect(markedProcesses(mark)).toEqual([])
})
