/** ATP: messages of which a stated share must arrive. */
module org.netapprox.atp {
    exports org.netapprox.atp;
}
