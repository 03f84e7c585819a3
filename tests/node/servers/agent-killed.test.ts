import { afterEach, expect, test } from 'bun:test'
import { processesWith, startAgentProcess } from '../../support/nodes/agent-process.ts'
import { type ModelFolder, modelFolder, scriptModel } from '../../support/nodes/model-files.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const folders: ModelFolder[] = []
const agents: { readonly child: Bun.Subprocess }[] = []

const folderOf = (...models: object[]) => {
  const folder = modelFolder({ memory_mb: 80, models })
  folders.push(folder)
  return folder
}

const start = async (folder: ModelFolder) => {
  const agent = await startAgentProcess(folder.path)
  agents.push(agent)
  return agent
}

const keepersOf = (folder: ModelFolder) => processesWith(`WORD=${folder.stored().word}`)

afterEach(async () => {
  for (const { child } of agents.splice(0)) {
    child.kill('SIGKILL')
    await child.exited
  }
  for (const folder of folders.splice(0)) {
    await waitUntil('no process is left', () => folder.running().size === 0)
    folder.remove()
  }
})

test('§30: no model server outlives an agent that is killed', async () => {
  const folder = folderOf(scriptModel('a'), scriptModel('b', { deaf: '' }))
  const agent = await start(folder)
  await Promise.all([agent.chat('a'), agent.chat('b')])
  expect([...folder.running().keys()].sort()).toEqual(['a', 'b'])
  agent.child.kill('SIGKILL')
  await waitUntil('its servers have ended', () => folder.running().size === 0)
  await waitUntil('so has its keeper', () => keepersOf(folder).length === 0)
})

test('§30: killed together with its keeper: the next start ends what was left, before it starts anything', async () => {
  const folder = folderOf(scriptModel('a'))
  const agent = await start(folder)
  await agent.chat('a')
  const before = folder.running().get('a')
  for (const pid of [...keepersOf(folder), agent.pid]) process.kill(pid, 'SIGKILL')
  await agent.child.exited
  expect(folder.running().get('a')).toEqual(before)
  const next = await start(folder)
  expect(folder.running().size).toBe(0)
  await next.chat('a')
  expect(folder.running().get('a')).not.toEqual(before)
})

test('§30: a keeper that is killed comes back', async () => {
  const folder = folderOf(scriptModel('a'))
  const agent = await start(folder)
  await agent.chat('a')
  const [before = 0] = keepersOf(folder)
  process.kill(before, 'SIGKILL')
  await waitUntil('another one watches', () => keepersOf(folder).some((pid) => pid !== before))
  agent.child.kill('SIGKILL')
  await waitUntil('its servers have ended', () => folder.running().size === 0)
})

test('§30: asked to stop, the agent ends its servers and its keeper', async () => {
  const folder = folderOf(scriptModel('a'))
  const agent = await start(folder)
  await agent.chat('a')
  agent.child.kill('SIGTERM')
  await agent.child.exited
  expect(folder.running().size).toBe(0)
  await waitUntil('its keeper has ended', () => keepersOf(folder).length === 0)
})
