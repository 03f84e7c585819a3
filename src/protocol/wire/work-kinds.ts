/** Work that a request waits for, by what it was. */
const hostedKinds = [
  'hosted_chat',
  'hosted_embedding',
  'hosted_rerank',
  'hosted_audio',
  'hosted_image',
  'hosted_sealed',
] as const
export type HostedKind = (typeof hostedKinds)[number]
/** What receipts, debits and payouts are about. */
export const workKinds = [...hostedKinds, 'private_job'] as const
export type WorkKind = (typeof workKinds)[number]
