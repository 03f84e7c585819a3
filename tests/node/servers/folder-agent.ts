import { expect } from 'bun:test'
import type { NodeOptions } from '../../../src/node/node-options.ts'
import { type NodeStatus, nodeStatusPath } from '../../../src/protocol/wire/nodes/agent.ts'
import { type LoneAgent, startLoneAgent } from '../../support/nodes/lone-agent.ts'
import { type ModelFolder, modelFolder } from '../../support/nodes/model-files.ts'
import { statusHeaders } from '../../support/nodes/status-headers.ts'

interface FolderAgent {
  readonly agent: LoneAgent
  readonly folder: ModelFolder
}
const open: FolderAgent[] = []

/** An agent whose folder has this models.json; `times` of its servers in ms. */
export async function folderAgent(file: object, times = {}, options: Partial<NodeOptions> = {}): Promise<FolderAgent> {
  const folder = modelFolder(file)
  const serverTimes = { healthMs: 10, stopGraceMs: 15_000, backoffMs: 300, yieldMsMin: 100, ...times }
  const agent = await startLoneAgent({ ...options, dataDir: folder.path, serverTimes })
  open.push({ agent, folder })
  return { agent, folder }
}

/** After each test: no process of a server is left, whatever the test did. */
export async function endFolderAgents(): Promise<void> {
  for (const { agent, folder } of open.splice(0)) {
    folder.running()
    await agent.remove()
    expect([...folder.running().keys()]).toEqual([])
    folder.remove()
  }
}

export const ask = (agent: LoneAgent, model: string, more: object = {}, init: { readonly signal?: AbortSignal } = {}) =>
  agent.call('POST', '/v1/chat/completions', { model, messages: [{ role: 'user', content: 'hi' }], ...more }, init)

/** What the model says; throws unless 200. */
export async function said(agent: LoneAgent, model: string, more: object = {}): Promise<string> {
  const response = await ask(agent, model, more)
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`)
  const { choices } = (await response.json()) as { choices: { message: { content: string } }[] }
  return choices[0]?.message.content ?? ''
}

export async function statusOf(agent: LoneAgent): Promise<NodeStatus> {
  const response = await agent.call('GET', nodeStatusPath, null, { headers: statusHeaders() })
  return (await response.json()) as NodeStatus
}
export const modelsOf = async (agent: LoneAgent) =>
  new Map((await statusOf(agent)).runtimes.flatMap(({ models }) => models).map((model) => [model.id, model]))
