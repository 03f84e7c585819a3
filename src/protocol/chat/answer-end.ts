import { jsonString } from '../json/json-text.ts'
import type { AnswerMetadata } from './chunk-reader.ts'
import { type TokenUsage, usageText } from './token-usage.ts'

/**
 * The members `usage` and `svc` that end every answer, with the comma before them. Written by hand: it is on the path of
 * every answer, and the general writer takes three times as long.
 */
export function answerEnd(usage: TokenUsage, metadata: AnswerMetadata): string {
  const estimated = metadata.usage_estimated === true ? ',"usage_estimated":true' : ''
  const external = metadata.external === true ? ',"external":true' : ''
  const salt = metadata.receipt_salt === undefined ? '' : `,"receipt_salt":"${metadata.receipt_salt}"`
  const hashes =
    metadata.receipt_hashes === undefined ? '' : `,"receipt_hashes":${JSON.stringify(metadata.receipt_hashes)}`
  const hash = metadata.receipt_hash === undefined ? '' : `"receipt_hash":"${metadata.receipt_hash}",`
  const upstream =
    metadata.upstream_model === undefined ? '' : `,"upstream_model":${jsonString(metadata.upstream_model)}`
  const promise = metadata.receipt === undefined ? '' : `,"receipt":${JSON.stringify(metadata.receipt)}`
  const promises = metadata.receipts === undefined ? '' : `,"receipts":${JSON.stringify(metadata.receipts)}`
  const mixture = metadata.mixture === undefined ? '' : `,"mixture":${JSON.stringify(metadata.mixture)}`
  return `,"usage":${usageText(usage)},"svc":{"runtime_id":${jsonString(metadata.runtime_id)},"runtime_kind":${jsonString(metadata.runtime_kind)},"latency_ms":${metadata.latency_ms},"ttft_ms":${metadata.ttft_ms},${hash}"request_id":"${metadata.request_id}"${upstream}${estimated}${external}${salt}${hashes}${promise}${promises}${mixture}}`
}

/** `svc` for a writer that makes the text of a whole answer at once: with its members in their order, of which it leaves out what is undefined. */
export function metadataMember(metadata: AnswerMetadata): object {
  return {
    runtime_id: metadata.runtime_id,
    runtime_kind: metadata.runtime_kind,
    latency_ms: metadata.latency_ms,
    ttft_ms: metadata.ttft_ms,
    receipt_hash: metadata.receipt_hash,
    request_id: metadata.request_id,
    upstream_model: metadata.upstream_model,
    usage_estimated: metadata.usage_estimated === true ? true : undefined,
    external: metadata.external === true ? true : undefined,
    receipt_salt: metadata.receipt_salt,
    receipt_hashes: metadata.receipt_hashes,
    receipt: metadata.receipt,
    receipts: metadata.receipts,
    mixture: metadata.mixture,
  }
}
