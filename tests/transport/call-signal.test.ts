import { expect, test } from 'bun:test'
import { CallSignal } from '../../src/transport/call-signal.ts'

test('§6: everybody who listens hears of an abort once, functions and objects, in their order', () => {
  const heard: string[] = []
  const signal = new CallSignal()
  signal.addEventListener('abort', { handleEvent: () => heard.push('object') })
  signal.addEventListener('abort', () => heard.push('function'))
  signal.addEventListener('abort', () => heard.push('third'))
  expect(signal.aborted).toBe(false)
  signal.abort()
  signal.abort()
  expect(signal.aborted).toBe(true)
  expect(heard).toEqual(['object', 'function', 'third'])
})

test('who no longer listens hears nothing, and who listens then is heard', () => {
  const heard: string[] = []
  const signal = new CallSignal()
  const [first, second] = [() => heard.push('first'), () => heard.push('second')]
  signal.addEventListener('abort', first)
  signal.addEventListener('abort', second)
  signal.removeEventListener('abort', first)
  signal.addEventListener('abort', () => heard.push('later'))
  signal.removeEventListener('abort', second)
  signal.abort()
  expect(heard).toEqual(['later'])
})

test('who listens after the abort hears nothing: they look at `aborted` first', () => {
  const signal = new CallSignal()
  signal.abort()
  let heard = 0
  signal.addEventListener('abort', () => heard++)
  signal.abort()
  expect(heard).toBe(0)
})
