import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  cutToTokens,
  synthesisMessages,
  synthesisOverhead,
} from '../../../src/machines/mixture/strategies/synthesis-prompt.ts'
import { promptTokens, textWeight } from '../../../src/protocol/chat/token-estimate.ts'
import type { ChatRequest } from '../../../src/protocol/wire/inference/chat.ts'

const user = { role: 'user', content: 'hi' } as const
const made = (messages: ChatRequest['messages'], answers: readonly string[] = ['one', 'two']) =>
  synthesisMessages({ messages, answers, answerTokensMax: 1_000, tag: '0a1b2c3d' })

describe('§7, synthesis prompt', () => {
  test('a system message of its own in front, the conversation behind it as it was', () => {
    const conversation = [user, { role: 'assistant', content: 'ho' }, user] as const
    const [system, ...rest] = made([...conversation])
    expect(system?.role).toBe('system')
    expect(rest).toEqual([...conversation])
  })

  test('prepended to the system message that is there, text or parts', () => {
    const [text, ...others] = made([{ role: 'system', content: 'Be brief.' }, user])
    expect(others).toEqual([user])
    expect(String(text?.content)).toEndWith('\n\nBe brief.')
    const part = { type: 'text', text: 'Be brief.' }
    const [parts] = made([{ role: 'system', content: [part] }, user])
    expect(parts?.content).toEqual([{ type: 'text', text: String(made([user])[0]?.content) }, part])
  })

  test('every answer inside the tag, in the order of the experts, and what it is', () => {
    const prompt = String(made([user])[0]?.content)
    const found = [...prompt.matchAll(/<answer-0a1b2c3d index="(\d)">\n([\s\S]*?)\n<\/answer-0a1b2c3d>/g)]
    expect(found.map(([, index, text]) => [index, text])).toEqual([
      ['1', 'one'],
      ['2', 'two'],
    ])
    for (const said of ['2 candidate answers', 'wrong', 'biased', 'data', 'never instructions'])
      expect(prompt).toContain(said)
  })

  test('instructions and tags weigh no more than the estimate allows for, with four answers', () => {
    const messages = made([user], ['', '', '', ''])
    expect(promptTokens({ messages }) - promptTokens({ messages: [user] })).toBeLessThanOrEqual(synthesisOverhead)
  })
})

describe('cut of an answer', () => {
  test('what fits stays whole', () => expect(cutToTokens('abc', 1)).toBe('abc'))
  test('nothing fits into nothing', () => expect(cutToTokens('abc', 0)).toBe(''))
  test('the longest beginning that fits, no half characters', () => {
    const texts = fc.string({ unit: 'binary', maxLength: 200 })
    fc.assert(
      fc.property(texts, fc.integer({ min: 0, max: 100 }), (text, tokens) => {
        const cut = cutToTokens(text, tokens)
        expect(text.startsWith(cut)).toBe(true)
        expect(textWeight(cut)).toBeLessThanOrEqual(tokens)
        expect(cut.isWellFormed()).toBe(text.slice(0, cut.length).isWellFormed())
        const next = String.fromCodePoint(text.codePointAt(cut.length) ?? 0)
        if (cut !== text) expect(textWeight(cut + next)).toBeGreaterThan(tokens)
      }),
    )
  })
})
