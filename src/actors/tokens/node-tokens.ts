import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import type { RequestId } from '../../ids.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { estimatePrompt } from '../../protocol/chat/token-estimate.ts'
import { type Thinking, thinks, withTemplate } from '../../protocol/dialects/members/thinking.ts'
import type { Json } from '../../protocol/json/json-object.ts'
import type { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import { thinkingMembers, tokenizerOf } from '../../runtimes/registry.ts'
import {
  NoSuchTokenizer,
  type TokenAsk,
  type Tokenizer,
  TokenizerRefusal,
  type Tokens,
} from '../../runtimes/tokens/tokenizer.ts'
import { TransportError } from '../../transport/transport.ts'
import type { Access } from '../accounts/access.ts'
import type { Router } from '../pool/router.ts'
import { agentTokenizer } from './agent-tokenizer.ts'
import { TokenCall, type TokenCallPort } from './token-call.ts'
import { type TokenWish, tokenRoutes } from './token-routes.ts'

/** Nodes that are asked about one text, one after the other. */
const nodesAskedMax = 2
/** Questions of this process that one node has at a time. They take no slot, and a long text keeps a server's own loop busy. */
const questionsPerNodeMax = 4
const busyRetrySeconds = 1

export interface NodeTokensPort extends TokenCallPort {
  readonly router: Pick<Router, 'table' | 'transport'>
}

export interface TokenQuestion extends TokenWish {
  readonly access: Access
  readonly requestId: RequestId
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal
}

/** What a node said, and which. */
export interface NodeReply<T> {
  readonly answer: T
  readonly route: Route
}

type Work<T> = (tokenizer: Tokenizer, ask: TokenAsk, route: Route) => Promise<T | null>

/** An agent asks the server, if that is of a kind with a tokenizer. */
function tokenizerAt({ agent, runtimeKind, runtimeId }: Route): Tokenizer | undefined {
  const tokenizer = tokenizerOf(runtimeKind)
  return tokenizer === undefined || agent === null ? tokenizer : agentTokenizer(runtimeId)
}

/** The chat as this kind of server is asked for it: with the switch that makes its model think, or not. */
function chatFor({ runtimeKind }: Route, chat: ChatRequest & Thinking): Json {
  const { [thinks]: on } = chat
  const body = chat as unknown as Json
  return on === undefined ? body : { ...body, ...withTemplate(thinkingMembers(runtimeKind, on), body) }
}

/** Why the caller gets no answer. What the node has said is not repeated. */
function problemOf(failure: unknown, modelId: string): Problem {
  if (failure instanceof Problem) return failure
  if (failure instanceof NoSuchTokenizer) {
    const detail = `The node that serves ${modelId} has no tokenizer that can be asked this.`
    return new Problem('modality_not_supported', { param: 'model', detail })
  }
  if (failure instanceof TokenizerRefusal) {
    return new Problem('invalid_request', { detail: `The tokenizer of ${modelId} does not take this.` })
  }
  if (failure instanceof TransportError) return new Problem('upstream_error')
  throw failure
}

/**
 * Asks the nodes' own tokenizers (§35): without a slot, a receipt, a charge or a trace of the text. How they fail says nothing of
 * how they serve.
 */
export class NodeTokens {
  /** Questions that a node has now, by its id. */
  private readonly running = new Map<string, number>()

  constructor(private readonly port: NodeTokensPort) {}

  /** Throws a `Problem` where no node has answered, and an `AbortError` where the client is gone. */
  async ask<T>(question: TokenQuestion, work: Work<T>): Promise<NodeReply<T>> {
    const { router } = this.port
    const { modelId } = question
    const routes = tokenRoutes(router.table(), question, (route) => tokenizerAt(route) !== undefined)
    const idle = routes.filter(({ nodeId }) => this.runningAt(nodeId) < questionsPerNodeMax)
    let failure: unknown = new Problem('capacity_exhausted', { retryAfterSeconds: busyRetrySeconds })
    for (const route of idle.slice(0, nodesAskedMax)) {
      try {
        const answer = await this.tried(question, route, work)
        if (answer !== null) return { answer, route }
        failure = new TransportError('malformed')
      } catch (error) {
        question.signal.throwIfAborted()
        failure = error
      }
    }
    throw problemOf(failure, modelId)
  }

  /** The tokens of a chat as its model would read it; the same failures. */
  ofChat(question: TokenQuestion, chat: ChatRequest, strings = false): Promise<NodeReply<Tokens>> {
    return this.ask(question, (tokenizer, ask, route) =>
      tokenizer.ofChat(ask, { model: route.upstreamModelId, chat: chatFor(route, chat), strings }),
    )
  }

  private async tried<T>({ access, requestId, signal }: TokenQuestion, route: Route, work: Work<T>): Promise<T | null> {
    const tokenizer = tokenizerAt(route)
    const transport = this.port.router.transport(route.nodeId)
    if (tokenizer === undefined || transport === null) throw new TransportError('closed')
    const call = new TokenCall(this.port, transport, access.customerId, { [headers.nodeRequestId]: requestId })
    const { nodeId } = route
    this.running.set(nodeId, this.runningAt(nodeId) + 1)
    try {
      return await call.run(signal, (ask) => work(tokenizer, ask, route))
    } finally {
      const left = this.runningAt(nodeId) - 1
      if (left === 0) this.running.delete(nodeId)
      else this.running.set(nodeId, left)
    }
  }

  private runningAt(nodeId: string): number {
    return this.running.get(nodeId) ?? 0
  }
}

/** Whether only the estimate counts it: no tokenizer says how much of a context a picture takes. */
export function hasMedia(chat: ChatRequest): boolean {
  const { tokens, textTokens } = estimatePrompt(chat)
  return tokens !== textTokens
}
