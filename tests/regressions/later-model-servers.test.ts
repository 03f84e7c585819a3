import { describe, expect, test } from 'bun:test'
import { detectRuntime } from '../../src/runtimes/registry.ts'
import { modalityOf } from '../../src/runtimes/runtime.ts'
import { replay } from '../runtimes/replayed-server.ts'

/** What the server of a recorded answer offers, by id, and every path that was asked to learn it. */
const offered = (fixture: string) =>
  replay(fixture, async ({ get, asked }) => {
    const status = await (await detectRuntime(get))?.probe(get)
    const models = status?.models.map((model) => [model.id, modalityOf(model)])
    return { state: status?.state, models: Object.fromEntries(models ?? []), asked: new Set(asked) }
  })

describe('§8: a poll of SGLang', () => {
  test('has its model write nothing where the server says by itself that it is ready', async () => {
    const { state, asked } = await offered('sglang-ready')
    expect(state).toBe('ready')
    // Either makes the server work, or complain in its log, at every poll.
    expect([...asked].filter((path) => ['/health', '/get_model_info'].includes(path))).toEqual([])
  })

  test('hears from a server that is not ready by its own word', async () => {
    const { state, asked } = await offered('sglang-loading')
    expect([state, asked.has('/health')]).toEqual(['loading', false])
  })

  test('knows earlier versions by /health', async () => {
    const { state, asked } = await offered('sglang-earlier')
    expect([state, asked.has('/health'), asked.has('/get_model_info')]).toEqual(['ready', true, true])
  })
})

describe('§22: no chat goes to a model that cannot chat', () => {
  test('SGLang draws with some models, and makes videos, of which nothing here makes use, with others', async () => {
    expect((await offered('sglang-pictures')).models).toEqual({ 'acme/painter-12b': 'image' })
    expect((await offered('sglang-videos')).models).toEqual({})
  })

  test('Ollama says what a model can do, whatever the name', async () => {
    const { models } = await offered('ollama-ready')
    expect(models).toMatchObject({ 'acme/semantic-search:0.6b': 'embedding', 'mistral:latest': 'chat' })
    expect(Object.keys(models)).not.toContain('acme/painter:12b')
  })

  test('vLLM has only the routes of dictation, or of classes, for such a model', async () => {
    expect((await offered('vllm-transcription')).models).toEqual({ 'acme/dictation-large': 'audio' })
    expect((await offered('vllm-classifier')).models).toEqual({})
  })

  test('llama.cpp says of its only model that it takes decisions', async () => {
    expect((await offered('llama-cpp-decisions')).models).toEqual({})
  })
})
