import type { RuntimeId } from '../../ids.ts'
import { lexicalScores, lexicalStatus } from '../../runtimes/lexical.ts'
import type { LocalRuntime } from '../runtimes/local-runtime.ts'
import type { Ranker } from './ranker.ts'

export const lexicalRanker: Ranker = async ({ query, documents }, signal) => {
  const scores = await lexicalScores(query, documents, signal)
  return scores.map((score, index) => ({ index, score }))
}

/** The runtime that is always present, so that a new node can rerank documents. */
export function lexicalRuntime(runtimeId: RuntimeId): LocalRuntime {
  let inFlight = 0
  return {
    ...lexicalStatus(0),
    runtimeId,
    builtIn: true,
    transport: null,
    get inFlight() {
      return inFlight
    },
    trouble: null,
    get slotsFree() {
      return lexicalStatus(inFlight).slotsFree
    },
    begin: () => {
      inFlight++
      const end = () => {
        inFlight--
      }
      return { opened: () => Promise.resolve(), end }
    },
  }
}
