import { expect } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { ChatChunk } from '../../../src/protocol/wire/inference/chat.ts'
import { type ReadStream, readStream } from '../clients/event-stream.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../gateways/gateway.ts'
import {
  nodeChunk,
  nodeUsage,
  type ScriptedCall,
  type ScriptedNode,
  startScriptedNode,
} from '../nodes/scripted-node.ts'

/** Stands wherever a node may name itself; no client may see it. */
export const leak = '/srv/secret-of-the-node'
export const prompt = 'hello there'

export const role = nodeChunk({ role: 'assistant', content: '' })
export const text = (content: string) => nodeChunk({ content })
export const finish = nodeChunk({}, 'stop')
export const usage = { ...nodeChunk({}), choices: [], usage: nodeUsage }
export const done = 'data: [DONE]\n\n'
/** What a well-behaved node streams. */
export const usual = [role, text('Hi'), finish, usage, done] as const
export const askUsage = { stream_options: { include_usage: true } }

export type Script = (call: ScriptedCall) => void | Promise<void>

/** A node that writes the given blocks at once and ends. */
export const writes =
  (...blocks: readonly (string | object)[]): Script =>
  async (call) => {
    call.open()
    for (const block of blocks) {
      if (typeof block === 'string') await call.raw(block)
      else await call.event(block)
    }
    call.end()
  }

export const deltas = ({ chunks }: Pick<ReadStream, 'chunks'>) =>
  chunks.flatMap(({ choices }) => choices.map(({ delta, finish_reason }) => [delta, finish_reason] as const))

export interface StreamPool {
  readonly gateway: TestGateway
  readonly node: ScriptedNode
  readonly customer: TestCustomer
  ask(body?: object, init?: RequestInit): Promise<Response>
  /** A whole stream of a node that does `script`; fails unless 200, and where a chunk breaks its schema. */
  streamed(script: Script, body?: object): Promise<ReadStream & { readonly response: Response }>
  stop(): Promise<void>
}

/** A gateway with one scripted node that serves `m`. */
export async function startStreamPool(env: Readonly<Record<string, string>>): Promise<StreamPool> {
  const gateway = await startTestGateway({ env })
  const customer = await gateway.customer()
  const node = startScriptedNode('m')
  await gateway.node(node.url, { customerId: customer.customerId })
  const ask: StreamPool['ask'] = (body = {}, init = {}) => {
    const asked = { model: 'm', stream: true, messages: [{ role: 'user', content: prompt }], ...body }
    return gateway.chat(customer.key, asked, init)
  }
  return {
    gateway,
    node,
    customer,
    ask,
    streamed: async (script, body = {}) => {
      node.answer(script)
      const response = await ask(body)
      if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`)
      const stream = await readStream(response)
      expect(stream.text).not.toContain(leak)
      expect(stream.chunks.flatMap((chunk) => [...Value.Errors(ChatChunk, chunk)])).toEqual([])
      return { ...stream, response }
    },
    stop: async () => {
      node.stop()
      await gateway.stop()
    },
  }
}
