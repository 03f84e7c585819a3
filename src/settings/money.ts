import type { Setting } from './setting.ts'

/** Receipts, prices, and settlement on the blockchain. */
export const moneySettings = {
  SVC_RECEIPT_FLUSH_MS: {
    kind: 'number',
    default: 100,
    min: 1,
    max: 1_000,
    meaning: 'How long a receipt of free work may wait until the gateway writes it, ms',
  },
  SVC_PROTOCOL_FEE_BPS: {
    kind: 'number',
    default: 1_000,
    min: 0,
    max: 10_000,
    meaning: 'The operator’s part of each charge, basis points. The node gets the rest.',
  },
  SVC_PRIVATE_INFERENCE_BASE_PRICE_WEI: {
    kind: 'wei',
    default: 0n,
    meaning: 'Private inference: price of a request, wei',
  },
  SVC_PRIVATE_INFERENCE_PROMPT_TOKEN_PRICE_WEI: {
    kind: 'wei',
    default: 0n,
    meaning: 'Private inference: price of a prompt token, wei',
  },
  SVC_PRIVATE_INFERENCE_COMPLETION_TOKEN_PRICE_WEI: {
    kind: 'wei',
    default: 0n,
    meaning: 'Private inference: price of a completion token, wei',
  },
  SVC_PRIVATE_INFERENCE_MIN_PRICE_WEI: { kind: 'wei', default: 0n, meaning: 'Lowest quote, wei' },
  SVC_PRIVATE_INFERENCE_MAX_PRICE_WEI: {
    kind: 'wei',
    default: 0n,
    meaning: 'Highest quote, wei. 0 means that there is no highest quote.',
  },
  SVC_MARKETPLACE_SEGMENT: {
    kind: 'text',
    default: 'marketplace',
    meaning: 'First segment of the marketplace catalogue’s path: lower-case letters, digits and `-`',
  },
  SVC_CHAIN_RPC_URL: {
    kind: 'secret',
    meaning: 'EVM settlement: URL of the RPC that the gateway uses. Without it settlement is off.',
  },
  SVC_CHAIN_ID: {
    kind: 'number',
    default: 0,
    min: 0,
    max: 999_999_999_999,
    meaning: 'EVM settlement: chain id that the RPC must report',
  },
  SVC_CHAIN_KEY: {
    kind: 'secret',
    meaning: 'EVM settlement: private key of the account that sends transactions, `0x` and 64 hex digits',
  },
  SVC_CHAIN_CONTRACT: { kind: 'text', default: null, meaning: 'EVM settlement: address of the contract' },
  SVC_PUBLIC_RPC_URL: {
    kind: 'text',
    default: null,
    meaning:
      'URL of the RPC that the public settlement report names. It has no credentials and differs from the private one.',
  },
  SVC_CHAIN_NAME: {
    kind: 'text',
    default: null,
    meaning: 'Name of the network that the public settlement report shows',
  },
  SVC_CHAIN_EXPLORER: {
    kind: 'text',
    default: null,
    meaning: 'URL of the block explorer that the public settlement report names',
  },
  SVC_CHAIN_CONFIRMATIONS: {
    kind: 'number',
    default: 64,
    min: 1,
    max: 100_000,
    meaning: 'Blocks after which a transaction is final, on blockchains without the tag `finalized`',
  },
  SVC_SETTLEMENT_POLL_MS: {
    kind: 'number',
    default: 5_000,
    min: 20,
    max: 600_000,
    meaning: 'How often the gateway looks at the blockchain and at batches that are due, ms',
  },
  SVC_PAYOUT_BATCH_AGE_MS: {
    kind: 'number',
    default: 3_600_000,
    min: 1_000,
    max: 604_800_000,
    meaning:
      'How long a payout may wait until the gateway builds a batch, ms. It also builds one when 500 payouts wait.',
  },
  SVC_PAYOUT_ANNOUNCE_MS: {
    kind: 'number',
    default: 86_400_000,
    min: 0,
    max: 2_592_000_000,
    meaning:
      'How long the public log announces a payout batch before it goes to the blockchain, ms, so that anyone can compare its leaves with the log first',
  },
  SVC_PAYOUT_BATCH_MIN_WEI: {
    kind: 'wei',
    default: 0n,
    meaning: 'Sum of waiting payouts at which the gateway builds a batch, wei',
  },
} as const satisfies Record<string, Setting>
