import { afterEach, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { nodeModelsPath } from '../../../src/protocol/wire/nodes/agent.ts'
import { fakeHardware } from '../../support/nodes/fake-hardware.ts'
import { type ModelFolder, scriptModel } from '../../support/nodes/model-files.ts'
import { scoped } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'
import { endFolderAgents, folderAgent, modelsOf, said, statusOf } from './folder-agent.ts'

const begin = (file: object, path?: string) =>
  folderAgent(file, { measureMs: 50, fileMs: 20 }, path === undefined ? {} : { hardware: { path, root: '/nowhere' } })
afterEach(endFolderAgents)

const pidsOf = (folder: ModelFolder, model: string) => folder.running().get(model)
const told = (folder: ModelFolder) => folder.stored() as ReturnType<ModelFolder['stored']> & { fault?: string }

test('§37: an edited models.json is read while servers run: unchanged entries keep their processes, the others follow it', async () => {
  const kept = scriptModel('kept')
  const { agent, folder } = await begin({
    memory_mb: 200,
    models: [kept, scriptModel('edited'), scriptModel('gone')],
  })
  for (const id of ['kept', 'edited', 'gone']) await said(agent, id)
  const before = { kept: pidsOf(folder, 'kept'), edited: pidsOf(folder, 'edited') }
  folder.write({ memory_mb: 240, models: [kept, scriptModel('edited', {}, { slots: 3 }), scriptModel('fresh')] })
  await waitUntil('the new one is named', async () => (await modelsOf(agent)).has('fresh'))
  expect((await modelsOf(agent)).has('gone')).toBe(false)
  await waitUntil('the old ones have ended', () => folder.running().size === 1)
  expect(pidsOf(folder, 'kept')).toEqual(before.kept as number[])
  expect(await said(agent, 'edited')).toStartWith('edited from ')
  expect(await said(agent, 'fresh')).toStartWith('fresh from ')
  expect(pidsOf(folder, 'edited')).not.toEqual(before.edited as number[])
  expect((await statusOf(agent)).memory_mb).toEqual({ memory: 240 })
  expect(await said(agent, 'kept')).toContain(` ${before.kept?.[0]},`)
})

test('§37: work of an entry that changes is finished before its server ends, and new calls get the new one', async () => {
  const { agent, folder } = await begin({ memory_mb: 40, models: [scriptModel('a', { 'answer-ms': '800' })] })
  await said(agent, 'a')
  const old = pidsOf(folder, 'a')?.[0]
  const running = said(agent, 'a')
  await waitUntil('it works', () => agent.node.runtimes.list().some(({ inFlight }) => inFlight > 0))
  folder.write({ memory_mb: 40, models: [scriptModel('a', { 'answer-ms': '10' })] })
  await waitUntil('the file is read', () => agent.log().includes('models_file_read'))
  const next = said(agent, 'a')
  expect(await running).toContain(` ${old},`)
  expect(await next).not.toContain(` ${old},`)
})

test('§37: an edit of pins, logs, requests and profiles alone is followed without a new process', async () => {
  const { agent, folder } = await begin({ memory_mb: 80, models: [scriptModel('a', { echo: '' }), scriptModel('b')] })
  await said(agent, 'a')
  const before = pidsOf(folder, 'a')
  const verb = (name: string) => agent.call('POST', `${nodeModelsPath}/a/${name}`)
  expect((await verb('logs')).status).toBe(409)
  const more = {
    pinned: true,
    logs: true,
    request: { set: { temperature: 0.2 } },
    profiles: [{ id: 'a:hot', request: { set: { temperature: 1.5 } } }],
    files: [{ path: '/models/a.gguf' }],
  }
  const early = scriptModel('b', {}, { preload: true })
  folder.write({ memory_mb: 80, models: [scriptModel('a', { echo: '' }, more), early] })
  await waitUntil('the profile is told', async () => (await modelsOf(agent)).has('a:hot'))
  expect(JSON.parse(await said(agent, 'a'))).toMatchObject({ temperature: 0.2 })
  expect(JSON.parse(await said(agent, 'a:hot'))).toMatchObject({ temperature: 1.5 })
  expect(await (await verb('logs')).json()).toEqual({ lines: ['a listens'] })
  expect((await verb('unload')).status).toBe(409)
  await waitUntil('the other one is loaded', () => folder.stateOf('b') === 'ready.idle')
  expect(pidsOf(folder, 'a')).toEqual(before as number[])
  folder.write({ memory_mb: 80, models: [scriptModel('a', { echo: '' }), early] })
  await waitUntil('it is as before', async () => !(await modelsOf(agent)).has('a:hot'))
  expect((await verb('logs')).status).toBe(409)
  expect(JSON.parse(await said(agent, 'a'))).not.toHaveProperty('temperature')
  expect(pidsOf(folder, 'a')).toEqual(before as number[])
})

test('§37: a broken edit changes nothing, and the owner of the computer is told line and field', async () => {
  const { agent, folder } = await begin({ memory_mb: 80, models: [scriptModel('a')] })
  await said(agent, 'a')
  const before = pidsOf(folder, 'a')
  folder.write({ memory_mb: 80, models: [{ ...scriptModel('a'), slot: 4 }] })
  await waitUntil('it is refused', () => agent.log().includes('models_file_refused'))
  expect(told(folder).fault).toContain('models[0].slot is not a field here. Did you mean slots?')
  expect(agent.log()).not.toContain('slot is not a field')
  expect(await said(agent, 'a')).toStartWith('a from ')
  rmSync(join(folder.path, 'models.json'))
  await waitUntil('its absence is told', () => told(folder).fault?.includes('is gone') === true)
  folder.write({ memory_mb: 120, models: [scriptModel('a')] })
  await waitUntil('it is well again', () => told(folder).fault === undefined)
  expect(pidsOf(folder, 'a')).toEqual(before as number[])
})

test('§37: pinned and preloaded models are there before the first call; a pin gives way to nobody, and comes back', async () => {
  const { agent, folder } = await begin({
    memory_mb: 80,
    models: [
      scriptModel('pinned', {}, { pinned: true }),
      scriptModel('early', {}, { preload: true }),
      scriptModel('other'),
    ],
  })
  await waitUntil('both are there', () => ['pinned', 'early'].every((id) => folder.stateOf(id) === 'ready.idle'))
  const pinned = pidsOf(folder, 'pinned')
  await said(agent, 'early')
  // The pinned one was used least recently.
  expect(await said(agent, 'other')).toStartWith('other from ')
  expect(folder.stateOf('early')).toBe('stopped')
  expect(pidsOf(folder, 'pinned')).toEqual(pinned as number[])
  expect((await modelsOf(agent)).get('pinned')).toMatchObject({ pinned: true, loaded: true })
  expect((await agent.call('POST', `${nodeModelsPath}/pinned/unload`)).status).toBe(409)
  process.kill(pinned?.[0] ?? 0, 'SIGKILL')
  await waitUntil('it is back', () => {
    const now = pidsOf(folder, 'pinned')
    return folder.stateOf('pinned') === 'ready.idle' && now !== undefined && now[0] !== pinned?.[0]
  })
})

test('§37: each device has its budget, and the status tells both', async () => {
  const on = (device: string, mb: number) => ({ memory_mb: undefined, memory: { [device]: mb } })
  const { agent, folder } = await begin({
    memory: { gpu0: 24_000, gpu1: 8_000 },
    models: [
      scriptModel('a', {}, on('gpu0', 20_000)),
      scriptModel('b', {}, on('gpu1', 6_000)),
      scriptModel('c', {}, on('gpu1', 6_000)),
    ],
  })
  for (const id of ['a', 'b', 'c']) await said(agent, id)
  expect([...folder.running().keys()].sort()).toEqual(['a', 'c'])
  const { memory_mb: budgets } = await statusOf(agent)
  expect(budgets).toEqual({ gpu0: 24_000, gpu1: 8_000 })
  expect((await modelsOf(agent)).get('b')).toMatchObject({
    memory_mb: 6_000,
    device_mb: { gpu1: 6_000 },
    evicts: true,
  })
})

test('§37: a stop command ends a server that hears no signal, and {port} and {model} are filled in everywhere', async () => {
  const work = mkdtempSync(join(tmpdir(), 'penstock-stop-'))
  const stopped = join(work, 'stopped')
  const stop = `echo "$1 $2" > ${stopped}; kill -9 $(cat ${work}/pid)`
  const serve = scriptModel('a/b', { deaf: '' }) as { command: string[] }
  const { agent, folder } = await begin({
    memory_mb: 80,
    models: [
      {
        ...serve,
        command: [
          '/bin/sh',
          '-c',
          `echo $$ > ${work}/pid; exec "$@"`,
          'sh',
          ...serve.command.map((word) => (word === 'a/b' ? '{model}' : word)),
        ],
        env: { NAME: '{model}' },
        stop: ['/bin/sh', '-c', stop, 'sh', '{model}', '{port}'],
      },
    ],
  })
  expect(await said(agent, 'a/b')).toStartWith('a/b from ')
  await agent.call('POST', `${nodeModelsPath}/${encodeURIComponent('a/b')}/unload`)
  // The signal alone would take the whole grace of 15 s.
  await waitUntil('it has ended', () => folder.stateOf('a/b') === 'stopped' && existsSync(stopped))
  expect(await Bun.file(stopped).text()).toMatch(/^a\/b \d+\n$/)
  rmSync(work, { recursive: true })
})

test('§37: requests are changed as the file says, and profiles are further names of one server with requests of their own', async () => {
  const request = { set: { temperature: 0.2, cache_prompt: true }, strip: ['top_p'] }
  const profiles = [
    { id: 'a:hot', request: { set: { temperature: 1.5 }, strip: ['cache_prompt', 'seed'] } },
    { id: 'a:plain' },
  ]
  const { agent, folder } = await begin({
    memory_mb: 80,
    models: [scriptModel('a', { echo: '' }, { request, profiles })],
  })
  const sent = { temperature: 0.9, top_p: 0.5, seed: 7, max_tokens: 5 }
  const got = async (model: string) => JSON.parse(await said(agent, model, sent)) as Record<string, unknown>
  const base = { model: 'a', max_tokens: 5 }
  const messages = [{ role: 'user', content: 'hi' }]
  expect<object>(await got('a')).toEqual({ ...base, messages, temperature: 0.2, cache_prompt: true, seed: 7 })
  expect<object>(await got('a:hot')).toEqual({ ...base, messages, temperature: 1.5 })
  expect<object>(await got('a:plain')).toEqual({ ...base, messages, temperature: 0.2, cache_prompt: true, seed: 7 })
  expect([...folder.running().keys()]).toEqual(['a'])
  expect([...(await modelsOf(agent)).keys()].filter((id) => id.startsWith('a'))).toEqual(['a', 'a:hot', 'a:plain'])
  writeFileSync(
    join(folder.path, 'models.json'),
    JSON.stringify({ memory_mb: 80, models: [scriptModel('a', { echo: '' }, { request })] }),
  )
  await waitUntil('the profiles are gone', async () => !(await modelsOf(agent)).has('a:hot'))
})

test('§37: the memory of the processes is measured, and told beside what the file claims', async () => {
  const { agent } = await begin({
    memory_mb: 900,
    models: [scriptModel('a', { 'memory-mb': '150' }, { memory_mb: 300 })],
  })
  expect((await modelsOf(agent)).get('a')?.resident_mb).toBeUndefined()
  await said(agent, 'a')
  await waitUntil('it is measured', async () => ((await modelsOf(agent)).get('a')?.resident_mb ?? 0) > 150)
  expect((await modelsOf(agent)).get('a')).toMatchObject({ memory_mb: 300 })
  await agent.call('POST', `${nodeModelsPath}/a/unload`)
  await waitUntil('it is gone', async () => (await modelsOf(agent)).get('a')?.resident_mb === undefined)
})

test('§37: what its processes have in the memory of graphics cards is measured, too', async () => {
  await using hardware = await scoped(fakeHardware())
  const { agent, folder } = await begin({ memory: { gpu0: 9_000, gpu1: 9_000 }, models: [] }, hardware.path)
  // It tells two cards for each process of the machine.
  const listed = join(hardware.place, 'pids')
  writeFileSync(listed, '')
  hardware.tool(
    'nvidia-smi',
    `case "$1" in *compute-apps*) while read pid; do echo "$pid, 3000"; echo "$pid, [N/A]"; echo "$pid, 4000"; done <${listed};; esac`,
  )
  folder.write({
    memory: { gpu0: 9_000, gpu1: 9_000 },
    models: [{ ...scriptModel('a'), memory_mb: undefined, memory: { gpu0: 4_000, gpu1: 5_000 } }],
  })
  await waitUntil('the entry is read', async () => (await modelsOf(agent)).has('a'))
  await said(agent, 'a')
  writeFileSync(listed, `1\n${pidsOf(folder, 'a')?.[0]}\n`)
  await waitUntil('it is measured', async () => ((await modelsOf(agent)).get('a')?.resident_mb ?? 0) > 7_000)
  expect((await modelsOf(agent)).get('a')).toMatchObject({
    memory_mb: 9_000,
    device_mb: { gpu0: 4_000, gpu1: 5_000 },
  })
  expect((await modelsOf(agent)).get('a')?.resident_mb).toBeLessThan(8_000)
})
