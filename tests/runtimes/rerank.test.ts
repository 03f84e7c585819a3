import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { lexicalModelId, lexicalScores, lexicalStatus } from '../../src/runtimes/lexical.ts'
import { bestFirst, declaredRanker, jinaDialect, ranks, readScores } from '../../src/runtimes/rerank.ts'
import { isPooled, type RuntimeModel } from '../../src/runtimes/runtime.ts'
import { wordsOf } from '../../src/runtimes/words.ts'

const never = new AbortController().signal

describe('§12: reading a ranking', () => {
  const wanted = (count: number) => ({ count, atLeast: count, scoreKind: 'logit' }) as const

  test('any permutation of any finite scores gives scores in 0–1 in the order of the logits', () => {
    const logits = fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 1, maxLength: 50 })
    fc.assert(
      fc.property(logits, (scores) => {
        const results = scores.map((score, index) => ({ index, relevance_score: score }))
        const read = readScores(jinaDialect, { results: results.toReversed() }, wanted(scores.length))
        if (typeof read === 'string') throw new Error(read)
        for (const { score } of read) if (!(score >= 0 && score <= 1)) throw new Error('not in 0–1')
        const best = bestFirst(read, scores.length)
        for (const [at, { index }] of best.entries()) {
          const next = best[at + 1]
          if (next === undefined) continue
          if ((scores[index] ?? 0) < (scores[next.index] ?? 0) && best[at]?.score !== next.score)
            throw new Error('order')
        }
        return new Set(best.map(({ index }) => index)).size === scores.length
      }),
    )
  })

  test('nothing that a server says makes it throw', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (answer) => {
        const read = readScores(jinaDialect, answer, wanted(3))
        return typeof read === 'string'
      }),
    )
  })

  test('of equal scores the lower index comes first', () => {
    const scores = [3, 1, 2, 0].map((index) => ({ index, score: 0.5 }))
    expect(bestFirst(scores, 3).map(({ index }) => index)).toEqual([0, 1, 2])
  })
})

test('§12: a server of which the operator says that it ranks', () => {
  const model: RuntimeModel = { id: 'm', contextLength: null, ready: true, loaded: true }
  const status = { ...lexicalStatus(0), models: [model, ranks(model, { scoreKind: 'logit', documentsMax: 8 })] }
  expect(declaredRanker(status, 'probability').models.map(({ modality, ranking }) => [modality, ranking])).toEqual([
    ['rerank', { scoreKind: 'probability', documentsMax: null }],
    ['rerank', { scoreKind: 'probability', documentsMax: 8 }],
  ])
  const kindOf = (kind: 'llama.cpp' | 'openai') =>
    declaredRanker({ ...status, kind }, null).models[0]?.ranking?.scoreKind
  expect([kindOf('llama.cpp'), kindOf('openai')]).toEqual(['logit', 'probability'])
  expect([model, ranks(model, { scoreKind: 'logit', documentsMax: null })].map(isPooled)).toEqual([true, false])
})

describe('§12: the built-in ranker', () => {
  test('says what it is', () => {
    expect(lexicalModelId).toBe('lexical/bm25')
    expect(lexicalStatus(1)).toMatchObject({ kind: 'other', state: 'ready', slotsTotal: 4, slotsFree: 3 })
    expect(lexicalStatus(9).slotsFree).toBe(0)
  })

  test('0 without a common word, below 1 with all of them, rarer words weigh more', async () => {
    const scores = await lexicalScores('rare common', ['common', 'common rare', 'nothing', 'common', ''], never)
    expect(scores[2]).toBe(0)
    expect(scores[4]).toBe(0)
    for (const score of scores) expect(score).toBeLessThan(1)
    expect(scores[1]).toBeGreaterThan(scores[0] ?? 1)
    expect(scores[0]).toBe(scores[3] ?? -1)
    const [rare, common] = await lexicalScores('rare common', ['rare', 'common', 'common'], never)
    expect(rare).toBeGreaterThan(common ?? 1)
  })

  test('a query of many words scores as the sum of its words, however they are taken', async () => {
    const documents = Array.from({ length: 700 }, (_, at) => `w${at % 40} w${at % 7} w${at % 3} other`)
    const words = Array.from({ length: 40 }, (_, at) => `w${at}`)
    const raw = (score: number | undefined) => 1 / (1 - (score ?? 0)) - 1
    const single = await Promise.all(words.map((word) => lexicalScores(word, documents, never)))
    const together = await lexicalScores(words.join(' '), documents, never)
    for (const at of [0, 13, 699]) {
      const sum = single.reduce((total, scores) => total + raw(scores[at]), 0)
      expect(raw(together[at])).toBeCloseTo(sum, 6)
    }
  })

  test('words that objects know too are words', async () => {
    const odd = ['constructor', 'toString hasOwnProperty', '__proto__', 'prototype']
    const scores = await lexicalScores('constructor __proto__ hasownproperty', odd, never)
    expect(scores.map((score) => score > 0)).toEqual([true, true, true, false])
  })

  test('no text makes it throw, and every score is in 0–1', async () => {
    const text = fc.string({ unit: 'binary', maxLength: 200 })
    await fc.assert(
      fc.asyncProperty(text, fc.array(text, { minLength: 1, maxLength: 8 }), async (query, documents) => {
        const scores = await lexicalScores(query, documents, never)
        return scores.length === documents.length && scores.every((score) => score >= 0 && score < 1)
      }),
    )
  })

  test('a large request gives others their turn, and can be abandoned half-way', async () => {
    const documents = Array.from({ length: 64 }, (_, at) => `word${at} `.repeat(9_000))
    let turns = 0
    const timer = setInterval(() => turns++, 1)
    await lexicalScores('word1 word2', documents, never)
    clearInterval(timer)
    expect(turns).toBeGreaterThan(3)
    const gone = new AbortController()
    const abandoned = lexicalScores('word1', documents, gone.signal)
    setImmediate(() => gone.abort(new Error('gone')))
    await expect(abandoned).rejects.toThrow('gone')
  })
})

test('§12: words of any script, in one form', () => {
  expect(wordsOf('Straße, naïve café; GPT-4: 3.14')).toEqual(['straße', 'naïve', 'café', 'gpt', '4', '3', '14'])
  expect(wordsOf('東京都の人口')).toEqual(['東京', '都', 'の', '人口'])
  expect(wordsOf('我住在Berlin市')).toContain('berlin')
  expect(wordsOf('ＦＵＬＬ ｗｉｄｔｈ ﬁ')).toEqual(['full', 'width', 'fi'])
  expect(wordsOf('— … !')).toEqual([])
  expect(wordsOf('')).toEqual([])
})
