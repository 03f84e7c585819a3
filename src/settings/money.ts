import type { Setting } from './setting.ts'

/** Receipts, prices, and settlement on a chain. */
export const moneySettings = {
  SVC_RECEIPT_FLUSH_MS: {
    kind: 'number',
    default: 100,
    min: 1,
    max: 1_000,
    meaning: 'Receipts of free work are written at least every, ms',
  },
  SVC_PROTOCOL_FEE_BPS: {
    kind: 'number',
    default: 1_000,
    min: 0,
    max: 10_000,
    meaning: "The operator's part of each charge, basis points; the node has the rest",
  },
  SVC_PRIVATE_INFERENCE_BASE_PRICE_WEI: { kind: 'wei', default: 0n, meaning: 'Private inference: per request, wei' },
  SVC_PRIVATE_INFERENCE_PROMPT_TOKEN_PRICE_WEI: { kind: 'wei', default: 0n, meaning: 'Per prompt token, wei' },
  SVC_PRIVATE_INFERENCE_COMPLETION_TOKEN_PRICE_WEI: { kind: 'wei', default: 0n, meaning: 'Per completion token, wei' },
  SVC_PRIVATE_INFERENCE_MIN_PRICE_WEI: { kind: 'wei', default: 0n, meaning: 'Floor of a quote, wei' },
  SVC_PRIVATE_INFERENCE_MAX_PRICE_WEI: { kind: 'wei', default: 0n, meaning: 'Ceiling of a quote, wei; 0: none' },
  SVC_MARKETPLACE_SEGMENT: {
    kind: 'text',
    default: 'marketplace',
    meaning: 'First part of the path of the marketplace catalogue: lower-case letters, digits and `-`',
  },
  SVC_CHAIN_RPC_URL: { kind: 'secret', meaning: 'EVM settlement: the RPC that the gateway itself uses; unset: off' },
  SVC_CHAIN_ID: {
    kind: 'number',
    default: 0,
    min: 0,
    max: 999_999_999_999,
    meaning: 'EVM settlement: chain id that the RPC must answer with',
  },
  SVC_CHAIN_KEY: {
    kind: 'secret',
    meaning: 'EVM settlement: private key of the account that submits, `0x` and 64 hex',
  },
  SVC_CHAIN_CONTRACT: { kind: 'text', default: null, meaning: 'EVM settlement: address of the contract' },
  SVC_PUBLIC_RPC_URL: {
    kind: 'text',
    default: null,
    meaning: 'RPC that the public settlement report names: without credentials, another than the private one',
  },
  SVC_CHAIN_NAME: { kind: 'text', default: null, meaning: 'Name of the network in the public settlement report' },
  SVC_CHAIN_EXPLORER: { kind: 'text', default: null, meaning: 'Block explorer in the public settlement report' },
  SVC_CHAIN_CONFIRMATIONS: {
    kind: 'number',
    default: 64,
    min: 1,
    max: 100_000,
    meaning: 'Blocks until a transaction is final, on chains without the tag `finalized`',
  },
  SVC_SETTLEMENT_POLL_MS: {
    kind: 'number',
    default: 5_000,
    min: 20,
    max: 600_000,
    meaning: 'Between two looks at the chain and at what is due, ms',
  },
  SVC_PAYOUT_BATCH_AGE_MS: {
    kind: 'number',
    default: 3_600_000,
    min: 1_000,
    max: 604_800_000,
    meaning: 'A batch is built once a payout has waited for so long, or 500 wait, ms',
  },
  SVC_PAYOUT_BATCH_MIN_WEI: { kind: 'wei', default: 0n, meaning: 'A batch is built once so much waits, wei' },
} as const satisfies Record<string, Setting>
