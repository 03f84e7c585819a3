/**
 * The same text in one piece. JavaScript keeps a text that grew by `+` as the tree of its pieces until somebody reads it: with
 * pieces of four characters that takes twelve times the text (seen). Reading its last character makes it one.
 */
export const flatText = (text: string): string => (Number.isNaN(text.charCodeAt(text.length - 1)) ? '' : text)

/** Units that may be in pieces; beyond it a text is made one when its pieces are more than this part of it. */
export const looseUnitsMin = 4_096
export const looseShare = 16
