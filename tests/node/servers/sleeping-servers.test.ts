import { afterEach, expect, test } from 'bun:test'
import { nodeModelsPath } from '../../../src/protocol/wire/nodes/agent.ts'
import type { LoneAgent } from '../../support/nodes/lone-agent.ts'
import { scriptModel } from '../../support/nodes/model-files.ts'
import { waitUntil } from '../../support/run/wait-until.ts'
import { ask, endFolderAgents, folderAgent, modelsOf, said } from './folder-agent.ts'

const requests = { sleep: { path: '/sleep', memory_mb: 10 }, wake: { path: '/wake' } }
const sleeper = (id: string, flags = {}, more: object = {}) =>
  scriptModel(id, { sleeps: '', ...flags }, { ...requests, ...more })

const begin = (memoryMb: number, ...models: object[]) => folderAgent({ memory_mb: memoryMb, models })

afterEach(endFolderAgents)

const modelOf = async (agent: LoneAgent, id: string) => (await modelsOf(agent)).get(id)
const isIn = (agent: LoneAgent, id: string, state: string) =>
  waitUntil(`${id} ${state}`, async () => (await modelOf(agent, id))?.server_state === state)
const unload = (agent: LoneAgent, id: string) => agent.call('POST', `${nodeModelsPath}/${id}/unload`, {})

test('§39: a server with requests of its own for it is sent to sleep instead of ended, and a call wakes the same process', async () => {
  const { agent } = await begin(80, sleeper('a'))
  const first = await said(agent, 'a')
  expect(await modelOf(agent, 'a')).toMatchObject({ loaded: true, dozing: false })
  await unload(agent, 'a')
  await isIn(agent, 'a', 'dozing')
  expect(await modelOf(agent, 'a')).toMatchObject({ ready: true, loaded: false, dozing: true })
  expect(await Promise.all([1, 2, 3].map(() => said(agent, 'a')))).toEqual([first, first, first])
  expect((await modelOf(agent, 'a'))?.server_state).toBe('ready.idle')
})

test('§39: another model gets the memory of one that sleeps but for what that keeps, and both take turns without a load', async () => {
  const { agent, folder } = await begin(50, sleeper('a'), sleeper('b'))
  const firsts = [await said(agent, 'a'), await said(agent, 'b')]
  expect((await modelOf(agent, 'a'))?.server_state).toBe('dozing')
  expect([await said(agent, 'a'), await said(agent, 'b')]).toEqual(firsts)
  expect([...folder.running().keys()].sort()).toEqual(['a', 'b'])
})

test('§39: where even what it keeps is needed it ends, and what does not wake is started again', async () => {
  const { agent, folder } = await begin(45, sleeper('a'), scriptModel('b'), sleeper('c', { 'wake-fails': '' }))
  const first = await said(agent, 'a')
  await said(agent, 'b')
  expect([...folder.running().keys()]).toEqual(['b'])
  expect(await said(agent, 'a')).not.toBe(first)
  const before = await said(agent, 'c')
  await unload(agent, 'c')
  await isIn(agent, 'c', 'dozing')
  expect((await ask(agent, 'c')).status).toBe(503)
  await waitUntil('another start', async () => {
    const answer = await ask(agent, 'c')
    return answer.status === 200 && !(await answer.text()).includes(before)
  })
})

test('§39: the entry of a server that sleeps is taken out of the file: it ends', async () => {
  const { agent, folder } = await begin(80, sleeper('a'), scriptModel('b'))
  await said(agent, 'a')
  await unload(agent, 'a')
  await isIn(agent, 'a', 'dozing')
  folder.write({ memory_mb: 80, models: [scriptModel('b')] })
  await waitUntil('its end', () => folder.running().size === 0)
})
