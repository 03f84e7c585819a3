import { expect } from 'bun:test'
import { ChunkRewriter } from '../../../src/protocol/chat/chunk-rewriter.ts'

export type Json = Record<string, unknown>
export const identity = { id: 'chatcmpl-01TEST', created: 1_795_190_400, model: 'public/model' }
/** What a node would rather keep to itself. */
export const secret = '/srv/secret/weights.gguf'
export const publicKeys = ['choices', 'created', 'id', 'model', 'object']
export const choiceKeys = ['delta', 'finish_reason', 'index', 'logprobs']
export const finishReasons = ['stop', 'length', 'tool_calls', 'content_filter']

/** A rewriter past its first chunk, so that one line gives one event. */
export function begun(): ChunkRewriter {
  const rewriter = new ChunkRewriter(identity)
  rewriter.accept('{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}')
  return rewriter
}

export function events(text: string): Json[] {
  expect(text).toMatch(/^(data: [^\n]*\n\n)+$/)
  return text
    .split('\n\n')
    .filter((block) => block !== '')
    .map((block) => JSON.parse(block.slice('data: '.length)) as Json)
}

/** §6 in plain words, without any of the product's code: what one chunk of a node becomes. */
export function expected(line: string): Json | 'malformed' | 'failed' | 'nothing' {
  let chunk: Json
  try {
    chunk = JSON.parse(line) as Json
  } catch {
    return 'malformed'
  }
  if (typeof chunk !== 'object' || chunk === null || Array.isArray(chunk)) return 'malformed'
  if ((chunk.error !== undefined && chunk.error !== null) || chunk.object === 'error') return 'failed'
  const given = Array.isArray(chunk.choices) ? (chunk.choices as Json[]) : []
  const choices = given.map((choice) => ({
    index: choice.index,
    delta: choice.delta,
    finish_reason: null,
    ...(typeof choice.logprobs === 'object' && choice.logprobs !== null ? { logprobs: choice.logprobs } : {}),
  }))
  if (choices.length === 0 || given.some((choice) => choice.finish_reason)) return 'nothing'
  return { id: identity.id, object: 'chat.completion.chunk', created: identity.created, model: identity.model, choices }
}
