import { expect, test } from 'bun:test'
import { noConfidences } from '../../src/confidences.ts'
import { nodeRefusal } from '../../src/protocol/chat/node-refusal.ts'

/*
 * A node that had dialled in quoted the router's signature without its name, percent-encoded or in escapes of JSON, and the client heard
 * all of it: only signatures behind `sig=` were known, and runs of letters without an escape between them.
 */

const signature = '6PT3INrbAeLPcobROUrZR_CspBnQqf9J8taEwUXwW-Fhy6z3qFP8D5Z_i2urKtAblMztwUoS6xWcx7UHcq6-CA'
const hex = (each: string) => each.charCodeAt(0).toString(16).padStart(2, '0')
const percent = (text: string) => [...text].map((each) => `%${hex(each)}`).join('')
const escapes = (text: string) => [...text].map((each) => `\\u00${hex(each)}`).join('')
const half = signature.length / 2

test.each([
  ['percent-encoded', percent(signature)],
  ['percent-encoded, cut off', percent(signature.slice(0, half))],
  ['in escapes', escapes(signature)],
  ['in escapes of JSON within JSON', JSON.stringify(escapes(signature)).slice(1, -1)],
  ['half in escapes', signature.slice(0, half) + escapes(signature.slice(half))],
  ['half percent-encoded', percent(signature.slice(0, half)) + signature.slice(half)],
  ['in escapes and percent-encoded', escapes(signature.slice(0, half)) + percent(signature.slice(half))],
])('§5: a signature without its name is struck %s', (_name, text) => {
  const body = JSON.stringify({ error: { message: `no template for ${text} here` } })
  const refusal = nodeRefusal(400, body, { names: {}, confided: noConfidences })
  expect(refusal?.message).toBe('no template for […] here')
})

test('§5: an encoded address that is no signature stays as it is', () => {
  for (const text of ['q=two%20words%20of%20a%20search', 'caf\\u00e9 and na\\u00efve', '%%%%', '\\u00']) {
    expect(noConfidences.strike(text)).toBe(text)
  }
})

test('§5: a text of escapes without end is read like any other', () => {
  for (const text of ['%41', '%4', '\\u0041', '\\u00', '\\', 'a', 'a%', '_\\\\']) {
    expect(noConfidences.strike(text.repeat(8_192 / text.length))).toBeString()
  }
})
