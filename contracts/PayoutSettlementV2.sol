// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";

/// Payouts of nodes, a merkle root per batch. The operator settles a batch with all of its money; each payee claims its leaf
/// once, to any address, with data that is public.
///
/// What the operator cannot do: change the root of a batch, settle it twice, settle it with less than its total, pay a leaf of
/// one batch with the money of another, keep a payee from claiming a leaf of a settled root while the batch has money, or take
/// back before a year what no leaf pays for.
///
/// What the operator can do: choose the root. It may hold a leaf in the operator's own name, which the operator claims at once,
/// or leaves whose sum exceeds the total, of which the last to claim get nothing, or lack a payee. The contract sees a root and
/// no leaves. So each batch is announced in the gateway's public log before it is settled, where anybody can compare its leaves
/// with the receipts that they pay for. After a year the operator takes what nobody has claimed, also from payees who were late.
///
/// Leaf: keccak256(keccak256(abi.encode(bytes32 payoutId, address payee, uint256 amount))), in a tree of OpenZeppelin's
/// standard. A payout's id is the hash of the receipt that it was earned by, so that a root commits to receipts.
contract PayoutSettlementV2 {
    uint256 public constant RECLAIM_AFTER = 365 days;

    address public operator;
    /// Becomes the operator when it says so itself: a mistyped address cannot.
    address public pendingOperator;

    /// Zero: not settled.
    mapping(bytes32 batchId => bytes32) public root;
    /// Left of what the batch was settled with: a wrong root can never touch the money of another batch.
    mapping(bytes32 batchId => uint256) public remaining;
    mapping(bytes32 batchId => uint256) public settledAt;
    mapping(bytes32 batchId => mapping(bytes32 payoutId => bool)) public claimed;

    event PayoutBatchSettled(bytes32 indexed batchId, bytes32 indexed root, uint256 total, uint256 count);
    event PayoutClaimed(bytes32 indexed batchId, bytes32 indexed payoutId, address indexed payee, uint256 amount);
    event PayoutSentTo(bytes32 indexed batchId, bytes32 indexed payoutId, address to);
    event BatchReclaimed(bytes32 indexed batchId, uint256 amount);
    event OperatorProposed(address indexed operator, address indexed proposed);
    event OperatorChanged(address indexed before, address indexed operator);

    error NotOperator();
    error NotProposed();
    error NoAddress();
    error AlreadySettled();
    error EmptyRoot();
    error WrongValue();
    error AlreadyClaimed();
    error InvalidProof();
    error Underfunded();
    error TooEarly();
    error NothingLeft();
    error TransferFailed();

    modifier onlyOperator() {
        if (msg.sender != operator) revert NotOperator();
        _;
    }

    constructor(address operator_) {
        if (operator_ == address(0)) revert NoAddress();
        operator = operator_;
    }

    function proposeOperator(address proposed) external onlyOperator {
        pendingOperator = proposed;
        emit OperatorProposed(operator, proposed);
    }

    function acceptOperator() external {
        if (msg.sender != pendingOperator) revert NotProposed();
        emit OperatorChanged(operator, msg.sender);
        operator = msg.sender;
        pendingOperator = address(0);
    }

    /// Once for each batch, so that whatever is sent twice is paid once. `total`, all of it, comes with the call.
    function settleBatch(bytes32 batchId, bytes32 root_, uint256 total, uint256 count) external payable onlyOperator {
        if (root[batchId] != bytes32(0)) revert AlreadySettled();
        if (root_ == bytes32(0)) revert EmptyRoot();
        if (msg.value != total || total == 0) revert WrongValue();
        root[batchId] = root_;
        remaining[batchId] = total;
        settledAt[batchId] = block.timestamp;
        emit PayoutBatchSettled(batchId, root_, total, count);
    }

    /// Anybody may send it: the money goes to the payee of the leaf.
    function claim(bytes32 batchId, bytes32 payoutId, address payee, uint256 amount, bytes32[] calldata proof) external {
        _claim(batchId, payoutId, payee, amount, proof, payee);
    }

    /// The payee alone, for an account that cannot take money itself.
    function claimTo(bytes32 batchId, bytes32 payoutId, uint256 amount, address to, bytes32[] calldata proof) external {
        if (to == address(0)) revert NoAddress();
        emit PayoutSentTo(batchId, payoutId, to);
        _claim(batchId, payoutId, msg.sender, amount, proof, to);
    }

    /// What nobody has claimed within a year of the settlement. A leaf of the operator's own is claimed like any other, at once.
    function reclaim(bytes32 batchId) external onlyOperator {
        if (root[batchId] == bytes32(0) || block.timestamp < settledAt[batchId] + RECLAIM_AFTER) revert TooEarly();
        uint256 amount = remaining[batchId];
        if (amount == 0) revert NothingLeft();
        remaining[batchId] = 0;
        emit BatchReclaimed(batchId, amount);
        _send(operator, amount);
    }

    /// Everything is written before the money leaves: who calls back in finds the payout claimed.
    function _claim(
        bytes32 batchId,
        bytes32 payoutId,
        address payee,
        uint256 amount,
        bytes32[] calldata proof,
        address to
    ) private {
        if (claimed[batchId][payoutId]) revert AlreadyClaimed();
        bytes32 leaf = keccak256(bytes.concat(keccak256(abi.encode(payoutId, payee, amount))));
        bytes32 settled = root[batchId];
        if (settled == bytes32(0) || !MerkleProof.verifyCalldata(proof, settled, leaf)) revert InvalidProof();
        if (remaining[batchId] < amount) revert Underfunded();
        claimed[batchId][payoutId] = true;
        remaining[batchId] -= amount;
        emit PayoutClaimed(batchId, payoutId, payee, amount);
        _send(to, amount);
    }

    function _send(address to, uint256 amount) private {
        (bool sent,) = to.call{value: amount}("");
        if (!sent) revert TransferFailed();
    }
}
